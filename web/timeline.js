/* The timeline: lanes of spans on a canvas, to move and zoom in with pointer, touch or keys. Idle spans say what they
 * waited for. Times in ns from the first operation of a GPU; what was merged when the page was written says so. */
function timeline() {
  const data = json("gw-timeline");
  const box = byId("tl");
  if (!data || !box) return;
  const names = data.names.map(clean);
  const lanes = data.lanes.map(unpack);
  const idle = lanes[0];
  const series = data.series;
  const T = data.length;
  const steady = data.steady_end > data.steady_start ? [data.steady_start, data.steady_end] : null;
  const AXIS = 40, GAP = 7, GUTTER = 118;
  const heights = { idle: 30, stream: 22, host: 22, range: 18 };
  let view = [0, T], width = 0, height = 0, gutter = GUTTER, selected = -1, theme = null, due = false;

  /* ---- data ---- */
  function unpack(l) {
    const n = l.at.length, start = new Float64Array(n), end = new Float64Array(n), many = new Map(), details = new Map();
    for (let i = 0, at = 0; i < n; i++) { at += l.at[i]; start[i] = at; end[i] = at + l.ns[i]; }
    for (let i = 0; i < l.merged.length; i += 3) many.set(l.merged[i], [l.merged[i + 1], l.merged[i + 2]]);
    for (const d of l.details || []) details.set(d[0], d);
    return { ...l, title: clean(l.title), n, start, end, many, details };
  }
  const named = (i) => (i >= 0 ? names[i] : say("not_known"));
  const cause = (k) => data.causes[k] || data.causes[0];
  /* First span that starts at `at` or later. */
  function from(l, at) {
    let lo = 0, hi = l.n;
    while (lo < hi) { const m = (lo + hi) >> 1; if (l.start[m] < at) lo = m + 1; else hi = m; }
    return lo;
  }
  const stepOf = (at) => {
    const b = data.steps;
    if (!b.length || at < b[0] || at >= b[b.length - 1]) return -1;
    let lo = 0, hi = b.length - 1;
    while (hi - lo > 1) { const m = (lo + hi) >> 1; if (b[m] <= at) lo = m; else hi = m; }
    return lo * data.steps_every;
  };

  /* ---- elements ---- */
  const bar = make("div", { class: "tools", role: "group", "aria-label": say("timeline").split(".")[0] });
  const button = (key, f, text) => {
    const b = make("button", { type: "button" }, text || say(key));
    if (text) { b.setAttribute("aria-label", say(key)); b.title = say(key); }
    b.addEventListener("click", f);
    bar.append(b);
    return b;
  };
  button("zoom_in", () => zoom(0.5), "+");
  button("zoom_out", () => zoom(2), "\u2212");
  button("all", () => show(0, T));
  if (steady) button("steady", () => show(...steady));
  if (data.focus[0]) button("typical", () => show(...data.focus[0]));
  if (data.focus[1]) button("slowest", () => show(...data.focus[1]));
  button("previous", () => step(-1), "\u2039");
  button("next", () => step(1), "\u203a");
  button("longest", () => select(longest(), true));
  const range = make("span", { class: "range num", "aria-live": "off" });
  bar.append(range);
  const canvas = make("canvas", { "aria-hidden": "true" });
  const tip = make("div", { class: "tip", hidden: "" });
  const app = make("div", { class: "view", role: "application", tabindex: "0", "aria-label": say("timeline") }, canvas, tip);
  const panel = make("div", { class: "detail", role: "status", "aria-live": "polite" });
  box.append(bar, app, make("p", { class: "note hint" }, say("hint")), panel);
  box.hidden = false;
  const g = canvas.getContext("2d");

  /* ---- view ---- */
  function show(a, b) {
    const least = Math.min(T, 200); /* ns: finer than a kernel is of no use */
    let w = Math.max(least, Math.min(b - a, T));
    a = Math.max(0, Math.min(a, T - w));
    view = [a, a + w];
    range.textContent = say("range", time(view[0]), time(view[1]));
    redraw();
  }
  function zoom(f, at = (view[0] + view[1]) / 2) { show(at - (at - view[0]) * f, at + (view[1] - at) * f); }
  const pan = (part) => { const d = (view[1] - view[0]) * part; show(view[0] + d, view[1] + d); };
  const x = (t) => gutter + ((t - view[0]) / (view[1] - view[0])) * (width - gutter);
  const t = (px) => view[0] + ((px - gutter) / (width - gutter)) * (view[1] - view[0]);
  function redraw() { if (!due) { due = true; requestAnimationFrame(() => { due = false; draw(); }); } }

  function layout() {
    const css = app.clientWidth;
    if (!css) return;
    width = css;
    gutter = css >= 640 ? GUTTER : 0;
    let y = AXIS;
    for (const l of lanes) {
      if (!gutter && l.title) y += 15;
      l.y = y;
      l.h = heights[l.type];
      y += l.h + (l.type === "range" ? 2 : GAP);
    }
    for (const s of series) { if (!gutter) y += 15; s.y = y; s.h = 36; y += s.h + GAP; }
    height = y + 4;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = height + "px";
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /* ---- colours ---- */
  const FAMILIES = ["other", "data", "sync", "launch", "memory", "compile", "peer", "phase", "unknown"];
  const KINDS = ["compute", "comm", "copies", "copies", "compute"];
  function hatch(fill, line, family) {
    const c = document.createElement("canvas"), n = 8;
    c.width = c.height = n;
    const p = c.getContext("2d");
    p.fillStyle = fill;
    p.fillRect(0, 0, n, n);
    p.strokeStyle = line;
    p.lineWidth = 1;
    p.beginPath();
    const lines = { data: [[0, 8, 8, 0]], memory: [[0, 0, 8, 8]], compile: [[0, 4, 8, 4]], peer: [[4, 0, 4, 8]],
                    phase: [[0, 4, 8, 4], [4, 0, 4, 8]], unknown: [[0, 0, 8, 8], [0, 8, 8, 0]], sync: [[3, 3, 4.5, 3]] }[family] || [];
    for (const [a, b, d, e] of lines) { p.moveTo(a, b); p.lineTo(d, e); }
    p.stroke();
    return g.createPattern(c, "repeat");
  }
  function readTheme() {
    theme = { ink: colour("ink"), dim: colour("ink-2"), rule: colour("rule"), band: colour("band"), back: colour("panel"), accent: colour("accent"),
              text: colour("on-span"), font: getComputedStyle(document.body).fontFamily, kind: {}, family: {}, plain: {} };
    for (const k of KINDS) theme.kind[k] = colour("k-" + k);
    for (const f of FAMILIES) {
      theme.plain[f] = colour("f-" + f);
      theme.family[f] = hatch(theme.plain[f], colour("hatch"), f);
    }
    theme.range = colour("k-range");
  }
  function paint(l, i) {
    if (l.type === "stream") return theme.kind[KINDS[l.kind[i]]];
    if (l.type === "range") return theme.range;
    return theme.family[cause(l.kind[i]).family];
  }

  /* ---- drawing ---- */
  function text(s, px, py, room, fill) {
    if (room < 14) return;
    let w = g.measureText(s).width;
    if (w > room) {
      const keep = Math.floor((s.length * room) / w) - 1;
      if (keep < 3) return;
      s = s.slice(0, keep) + "\u2026";
    }
    g.fillStyle = fill;
    g.fillText(s, px, py);
  }
  function label(l, i) {
    const m = l.many.get(i);
    if (m) return say("merged", count(m[0]));
    if (l.type === "idle") return cause(l.kind[i]).id;
    if (l.type === "host") return cause(l.kind[i]).id;
    return named(l.name[i]);
  }
  /* Spans of less than two pixels are added up by pixel: its colour is that of most of it, and its strength says how much of
   * it is covered. So a lane looks the same whether the page merged its spans or the screen does. */
  const strength = (share) => 0.2 + 0.8 * Math.min(1, share);
  function spans(l) {
    const pixel = (view[1] - view[0]) / (width - gutter);
    let column = -1, sum = 0, lead = 0, fill = null;
    const flush = () => {
      if (sum > 0) {
        g.globalAlpha = strength(sum / pixel);
        g.fillStyle = fill;
        g.fillRect(column, l.y, 1, l.h);
        g.globalAlpha = 1;
      }
      sum = lead = 0;
    };
    const small = (at, ns, paint) => {
      const c = Math.max(gutter, Math.floor(x(at)));
      if (c !== column) { flush(); column = c; }
      sum += ns;
      if (paint === fill) lead += ns;
      else if (ns > lead) { fill = paint; lead = ns - lead; }
      else lead -= ns;
    };
    for (let i = Math.max(0, from(l, view[0]) - 64); i < l.n && l.start[i] < view[1]; i++) {
      if (l.end[i] < view[0]) continue;
      const m = l.many.get(i), ns = l.end[i] - l.start[i];
      if (ns < 2 * pixel) { small(l.start[i], m ? m[1] : ns, paint(l, i)); continue; }
      flush();
      const a = Math.max(gutter, x(l.start[i])), w = Math.min(width, x(l.end[i])) - a;
      g.globalAlpha = m ? strength(m[1] / (ns || 1)) : 1;
      g.fillStyle = paint(l, i);
      g.fillRect(a, l.y, w > 3 ? w - 0.6 : w, l.h);
      g.globalAlpha = 1;
      if (w > 34) text(label(l, i), a + 4, l.y + l.h / 2 + 4, w - 8, m || l.type === "range" ? theme.ink : theme.text);
    }
    flush();
  }
  function curve(s) {
    let top = 0;
    for (const v of s.high) if (v > top) top = v;
    if (!top) top = 1;
    g.fillStyle = theme.kind.compute;
    g.globalAlpha = 0.5;
    const y = (v) => s.y + s.h - (s.h * Math.max(0, v)) / top;
    for (let i = 0; i < s.high.length; i++) {
      if (s.high[i] === null) continue;
      const a = Math.max(gutter, x(s.start + i * s.bucket)), b = Math.min(width, x(s.start + (i + 1) * s.bucket));
      if (b <= a) continue;
      g.fillRect(a, y(s.high[i]), b - a + 0.5, s.y + s.h - y(s.high[i]));
    }
    g.globalAlpha = 1;
    g.strokeStyle = theme.rule;
    g.strokeRect(gutter + 0.5, s.y + 0.5, width - gutter - 1, s.h);
    g.textAlign = "right";
    text(String(top), width - 4, s.y + 11, 80, theme.dim);
    g.textAlign = "left";
  }
  function axis() {
    const span = view[1] - view[0], wish = (span * 90) / Math.max(90, width - gutter);
    let unit = Math.pow(10, Math.floor(Math.log10(wish)));
    unit *= wish / unit > 5 ? 10 : wish / unit > 2 ? 5 : 2;
    g.font = "11px " + theme.font;
    for (let v = Math.ceil(view[0] / unit) * unit; v <= view[1]; v += unit) {
      const px = Math.round(x(v)) + 0.5;
      g.strokeStyle = theme.rule;
      g.beginPath();
      g.moveTo(px, 16);
      g.lineTo(px, height);
      g.stroke();
      const s = time(v), w = g.measureText(s).width;
      text(s, Math.min(Math.max(gutter, px - w / 2), width - w), 11, 200, theme.dim);
    }
  }
  function stepBands() {
    const b = data.steps;
    for (let i = 0; i + 1 < b.length; i++) {
      if (b[i + 1] < view[0] || b[i] > view[1]) continue;
      const a = Math.max(gutter, x(b[i])), e = Math.min(width, x(b[i + 1]));
      if (i % 2) { g.fillStyle = theme.band; g.fillRect(a, 18, e - a, height); }
      text(e - a > 60 ? say("step", i * data.steps_every) : String(i * data.steps_every), a + 4, 30, e - a - 6, theme.dim);
    }
  }
  function dimOutside() {
    if (!steady) return;
    g.fillStyle = theme.back;
    g.globalAlpha = 0.55;
    const a = Math.min(width, Math.max(gutter, x(steady[0]))), b = Math.max(gutter, Math.min(width, x(steady[1])));
    g.fillRect(gutter, AXIS, a - gutter, height);
    g.fillRect(b, AXIS, width - b, height);
    g.globalAlpha = 1;
  }
  function outline() {
    if (selected < 0) return;
    const a = x(idle.start[selected]), b = x(idle.end[selected]);
    g.strokeStyle = theme.accent;
    g.lineWidth = 2;
    g.strokeRect(Math.max(gutter, a) - 1, idle.y - 2, Math.max(3, Math.min(width, b) - Math.max(gutter, a)) + 2, idle.h + 4);
    const d = idle.details.get(selected), host = lanes.find((l) => l.type === "host");
    if (d && host && d[1] >= 0) { /* the host event that is to blame */
      const c = x(idle.start[selected] + d[5]), e = x(idle.start[selected] + d[5] + d[6]);
      if (e >= gutter && c <= width)
        g.strokeRect(Math.max(gutter, c), host.y - 2, Math.max(3, Math.min(width, e) - Math.max(gutter, c)), host.h + 4);
    }
    if (d && host && d[4] >= 0) { /* from the call to the work that ends the gap */
      const c = x(idle.start[selected] + d[7]);
      if (c >= gutter && b <= width && c <= width) {
        g.setLineDash([3, 3]);
        g.beginPath();
        g.moveTo(c, host.y);
        g.lineTo(b, idle.y + idle.h);
        g.stroke();
        g.setLineDash([]);
      }
    }
    g.lineWidth = 1;
  }
  function draw() {
    if (!theme) readTheme();
    if (!width) return;
    g.clearRect(0, 0, width, height);
    g.save();
    stepBands();
    axis();
    g.font = "11px " + theme.font;
    for (const l of lanes) spans(l);
    for (const s of series) curve(s);
    dimOutside();
    outline();
    g.clearRect(0, 0, gutter, height);
    g.font = "12px " + theme.font;
    for (const l of [...lanes, ...series])
      if (l.title) text(clean(l.title), 0, gutter ? l.y + l.h / 2 + 4 : l.y - 4, gutter ? gutter - 8 : width, theme.dim);
    g.restore();
  }

  /* ---- what is where ---- */
  function hit(px, py) {
    if (px < gutter) return null;
    const at = t(px), slack = ((view[1] - view[0]) / (width - gutter)) * 2;
    for (const l of lanes) {
      if (py < l.y - 2 || py > l.y + l.h + 2) continue;
      let best = -1, off = Infinity;
      for (let i = Math.max(0, from(l, at - slack) - 64); i < l.n && l.start[i] <= at + slack; i++) {
        const d = at < l.start[i] ? l.start[i] - at : at > l.end[i] ? at - l.end[i] : 0;
        if (d <= slack && d <= off) { best = i; off = d; }
      }
      return best < 0 ? null : { lane: l, i: best };
    }
    for (const s of series) {
      const i = Math.floor((at - s.start) / s.bucket);
      if (py >= s.y && py <= s.y + s.h && i >= 0 && i < s.high.length && s.high[i] !== null) return { series: s, i };
    }
    return null;
  }
  function describe(h) {
    if (h.series) {
      const s = h.series, lo = s.low[h.i], hi = s.high[h.i];
      return [clean(s.title), lo === hi ? String(hi) : say("value", lo, hi)];
    }
    const l = h.lane, i = h.i, ns = l.end[i] - l.start[i], m = l.many.get(i), out = [];
    if (l.type === "idle") {
      out.push(m ? say("idle_merged", count(m[0])) : cause(l.kind[i]).text);
      out.push(m ? say("idle_within", time(m[1])) + " \u00b7 " + say("among", cause(l.kind[i]).text) : say("idle", time(ns)));
    } else {
      const what = l.type === "stream" ? say(["compute", "comm", "copy_kind", "set_kind", "graph_kind"][l.kind[i]]) : l.type === "host" ? cause(l.kind[i]).text : "";
      out.push(m ? say("merged", count(m[0])) : l.type === "host" ? what : named(l.name[i]));
      out.push(time(ns) + (what && l.type !== "host" ? " \u00b7 " + what : ""));
      if (m) out.push(say("busy", time(m[1])), say("among", l.type === "host" ? what : named(l.name[i])));
      else if (l.type === "host" && l.name[i] >= 0) out.push(named(l.name[i]));
    }
    return out;
  }
  function detail(h) {
    panel.replaceChildren();
    if (!h) { selected = -1; redraw(); return; }
    const l = h.lane, i = h.i, lines = describe(h);
    selected = l === idle ? i : -1;
    const close = make("button", { type: "button", class: "close", "aria-label": say("close") }, "\u00d7");
    close.addEventListener("click", () => { detail(null); app.focus(); });
    const head = make("p", { class: "head" });
    if (l && (l.type === "idle" || l.type === "host")) head.append(make("span", { class: "sw f-" + cause(l.kind[i]).family }));
    head.append(make("b", {}, lines[0]));
    panel.append(close, head);
    const about = lines.slice(1);
    if (l) {
      about.push(say("starts", time(l.start[i])));
      const s = stepOf(l.start[i]);
      if (s >= 0) about.push(say("step", s));
      if (l.many.get(i)) about.push(say("zoom_hint"));
    }
    panel.append(make("p", { class: "dim" }, about.join(" \u00b7 ")));
    const d = l && l.details.get(i);
    if (d) {
      const list = make("dl");
      const row = (key, value, more) => {
        const dd = make("dd", {}, make("span", { class: "name" }, value));
        if (more) dd.append(" ", make("span", { class: "dim" }, more));
        list.append(make("div", {}, make("dt", {}, say(key)), dd));
      };
      row("waits_for", d[1] < 0 ? say("host_code") : named(d[1]), d[1] < 0 ? "" : d[5] < 0 ? say("ran_before", time(d[6]), time(-d[5])) : say("ran", time(d[6]), time(d[5])));
      if (d[2] >= 0) row("under", named(d[2]));
      row("ended_by", named(d[3]));
      row("issued_by", named(d[4]), d[4] < 0 ? "" : d[7] < 0 ? say("issued_before", time(-d[7])) : say("issued_at", time(d[7])));
      panel.append(list);
    }
    redraw();
  }

  /* ---- idle spans in turn ---- */
  function longest() {
    let best = -1;
    for (let i = 0; i < idle.n; i++) {
      if (idle.many.has(i) || (steady && (idle.end[i] <= steady[0] || idle.start[i] >= steady[1]))) continue;
      if (best < 0 || idle.end[i] - idle.start[i] > idle.end[best] - idle.start[best]) best = i;
    }
    return best;
  }
  function select(i, into) {
    if (i < 0) { panel.replaceChildren(make("p", { class: "dim" }, say("no_span"))); return; }
    const a = idle.start[i], b = idle.end[i], w = view[1] - view[0];
    if (into && ((b - a) / w < 0.04 || a < view[0] || b > view[1] || (b - a) / w > 0.9)) show(a - (b - a) * 4, b + (b - a) * 4);
    detail({ lane: idle, i });
  }
  /* The next one that is wide enough to be seen; else the next. */
  function step(way) {
    const least = ((view[1] - view[0]) / Math.max(1, width - gutter)) * 3;
    let i = selected >= 0 ? selected : way > 0 ? from(idle, view[0]) - 1 : from(idle, view[1]), near = -1;
    for (i += way; i >= 0 && i < idle.n; i += way) {
      if (idle.many.has(i)) continue;
      if (near < 0) near = i;
      if (idle.end[i] - idle.start[i] >= least) { near = i; break; }
    }
    if (near < 0) return;
    const w = view[1] - view[0];
    if (idle.start[near] < view[0] || idle.end[near] > view[1]) show(idle.start[near] - w / 2, idle.start[near] + w / 2);
    select(near, false);
  }

  /* ---- pointer, touch, keys ---- */
  const at = (e) => { const r = canvas.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top]; };
  const fingers = new Map();
  let moved = 0, pinch = 0;
  canvas.addEventListener("pointerdown", (e) => {
    if (e.button) return;
    fingers.set(e.pointerId, at(e));
    canvas.setPointerCapture(e.pointerId);
    moved = 0;
    pinch = 0;
  });
  canvas.addEventListener("pointermove", (e) => {
    const [px, py] = at(e), was = fingers.get(e.pointerId);
    if (!was) { tell(px, py); return; }
    fingers.set(e.pointerId, [px, py]);
    if (fingers.size === 2) {
      const [p, q] = [...fingers.values()], apart = Math.max(20, Math.abs(p[0] - q[0]));
      if (pinch) zoom(pinch / apart, t((p[0] + q[0]) / 2));
      pinch = apart;
      moved = 100;
      return;
    }
    moved += Math.abs(px - was[0]);
    if (moved > 4) {
      tip.hidden = true;
      const d = t(was[0]) - t(px);
      show(view[0] + d, view[1] + d);
    }
  });
  const up = (e) => {
    const had = fingers.delete(e.pointerId);
    if (e.type === "pointerup" && had && moved <= 4 && !fingers.size) {
      const h = hit(...at(e));
      app.focus({ preventScroll: true });
      detail(h);
    }
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", (e) => zoom(0.25, t(at(e)[0])));
  app.addEventListener("wheel", (e) => {
    if (e.ctrlKey || e.metaKey) {
      e.preventDefault();
      zoom(Math.exp(Math.max(-1, Math.min(1, e.deltaY / 200))), t(at(e)[0]));
    } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY) || e.shiftKey) {
      e.preventDefault();
      pan((e.deltaX || e.deltaY) / 1000);
    }
  }, { passive: false });
  function tell(px, py) {
    const h = hit(px, py);
    canvas.style.cursor = h && h.lane ? "pointer" : "grab";
    tip.hidden = !h;
    if (!h) return;
    const lines = describe(h);
    tip.replaceChildren(make("b", {}, lines[0]), ...lines.slice(1).map((s) => make("span", {}, s)));
    tip.style.left = Math.max(0, Math.min(px + 12, width - tip.offsetWidth - 4)) + "px";
    tip.style.top = py + 16 + "px";
  }
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    Home: () => show(0, T), n: () => step(1), p: () => step(-1), N: () => step(1), P: () => step(-1),
    Enter: () => select(selected >= 0 ? selected : longest(), true), Escape: () => detail(null)
  };
  app.addEventListener("keydown", (e) => {
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  });

  /* Rows of the table of longest idle spans lead here. */
  for (const row of document.querySelectorAll("tr[data-gap]")) {
    const cell = row.querySelector("td");
    const b = make("button", { type: "button", class: "goto", title: say("show") }, cell.textContent);
    b.setAttribute("aria-label", say("show") + ": " + cell.textContent);
    b.addEventListener("click", () => {
      select(Number(row.dataset.gap), true);
      box.scrollIntoView({ block: "nearest" });
      app.focus({ preventScroll: true });
    });
    cell.replaceChildren(b);
  }

  layout();
  show(...(steady || [0, T]));
  themed.push(() => { theme = null; redraw(); });
  new ResizeObserver(() => { if (app.clientWidth !== width) { layout(); redraw(); } }).observe(app);
  /* For tests, and for whoever asks in the console. */
  box.gpuwhy = { lanes, series, view: () => view, x, select, selected: () => selected };
}
timeline();
