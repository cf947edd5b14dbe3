/* What every page does: words, data, copy buttons, links that open what they point to. */
const byId = (id) => document.getElementById(id);
const json = (id) => (byId(id) ? JSON.parse(byId(id).textContent) : null);
const words = json("gw-labels") || {};
const root = document.documentElement;
root.classList.add("js");

/* The label `key` with each {} replaced. */
const say = (key, ...values) => (words[key] || key).replace(/\{\}/g, () => values.shift());

/* Names are foreign: marks that reorder or hide text become visible. */
const clean = (s) => s.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");

/* make("p", {class: "note"}, "text", element, ...) */
function make(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

/* Three digits and a unit that fits, as everywhere in the report. */
function time(ns) {
  const units = [["ns", 1], ["\u00b5s", 1e3], ["ms", 1e6], ["s", 1e9], ["min", 60e9], ["h", 3600e9]];
  const a = Math.abs(ns);
  let i = 0;
  while (i + 1 < units.length && a >= units[i + 1][1] * (i < 3 ? 0.9995 : i === 3 ? 2 : 1)) i++;
  const v = a / units[i][1];
  const digits = i === 0 ? 0 : v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
  return (ns < 0 ? "\u2212" : "") + v.toFixed(digits) + "\u00a0" + units[i][0];
}
const percent = (x) => (100 * x).toFixed(1) + "\u00a0%";
const count = (n) => (n < 10000 ? String(n) : String(n).replace(/\B(?=(\d{3})+$)/g, "\u00a0"));

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch (e) {
    const box = make("textarea", { "aria-hidden": "true", class: "off" });
    box.value = text;
    document.body.append(box);
    box.select();
    let done = false;
    try { done = document.execCommand("copy"); } catch (e2) { /* then by hand */ }
    box.remove();
    return done;
  }
}

function copyButton(text) {
  const b = make("button", { type: "button", class: "copy" }, say("copy"));
  const live = make("span", { class: "sr", role: "status" });
  b.addEventListener("click", async () => {
    const done = await copy(text);
    b.textContent = live.textContent = done ? say("copied") : say("copy_failed");
    setTimeout(() => { b.textContent = say("copy"); live.textContent = ""; }, 2000);
  });
  return [b, live];
}

/* Of advice one wants the code: a block of it, else the longest piece; of advice without code, all of it. */
function essence(box) {
  const all = (what) => [...box.querySelectorAll(what)].map((e) => e.textContent.trimEnd());
  const blocks = all("pre"), pieces = all("code").sort((a, b) => b.length - a.length);
  return blocks.length ? blocks.join("\n") : pieces.length && pieces[0].length > 9 ? pieces[0] : all("p").join("\n");
}
for (const box of document.querySelectorAll(".fix .do, .fix .check")) {
  const text = essence(box);
  const title = box.querySelector("h4");
  if (!text || !title) continue;
  const [b, live] = copyButton(text);
  b.setAttribute("aria-label", say("copy") + ": " + text.slice(0, 80));
  title.append(b, live);
}

/* A link to something inside a closed fold opens it. */
function openTarget() {
  const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
  for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
  if (target && target.firstElementChild && target.firstElementChild.tagName === "DETAILS") target.firstElementChild.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

/* On paper nothing can be opened. */
const closed = [];
addEventListener("beforeprint", () => {
  for (const d of document.querySelectorAll("details:not([open])")) { d.open = true; closed.push(d); }
});
addEventListener("afterprint", () => { while (closed.length) closed.pop().open = false; });

/* Colours live in page.css alone. */
const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
const themed = [];
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => themed.forEach((f) => f()));
