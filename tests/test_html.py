#!/usr/bin/env python3
"""HTML reports taken apart, without a browser: well-formed, self-contained, escaped, and the same data as --json.

usage: test_html.py GPUWHY REPORT_SAMPLES ROOT
"""
import base64
import hashlib
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import html_pages

GPUWHY, SAMPLES, ROOT = sys.argv[1:4]
VOID = {"meta", "br", "img", "link", "input", "path", "rect"}


class Page(html.parser.HTMLParser):
    """Tags that nest, ids, attributes, texts by tag."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.attributes, self.problems, self.scripts, self.words = [], [], [], [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.attributes += [(tag, k, v or "") for k, v in attrs]
        self.ids += [v for k, v in attrs if k == "id"]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, k, v or "") for k, v in attrs]

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes nothing, at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            attrs, text = self.scripts.pop()
            self.scripts.append((attrs, text + data))
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


def each(test):
    """Runs a test for every page; its messages must not hold the page."""
    def run(self):
        for name in self.page:
            with self.subTest(page=name):
                test(self, self.text[name], self.page[name])
    return run


class TestPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.paths = html_pages.make(GPUWHY, SAMPLES, ROOT, cls.folder.name)
        cls.text = {n: html_pages.read(p) for n, p in cls.paths.items()}
        cls.page = {n: Page(t) for n, t in cls.text.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @each
    def test_tags_nest_and_ids_are_unique(self, text, p):
        self.assertEqual(p.problems, [])
        self.assertEqual(len(p.ids), len(set(p.ids)))

    @each
    def test_nothing_is_fetched(self, text, p):
        for tag, key, value in p.attributes:
            if key in ("src", "srcset", "action", "formaction", "data", "poster", "background", "ping"):
                self.fail(f"<{tag} {key}={value}>")
            if key == "href":
                self.assertTrue(value.startswith("#"), value)
            self.assertFalse(key.startswith("on"), f"<{tag} {key}=...>")
        style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
        self.assertFalse("@import" in style)
        self.assertFalse("url(" in style)

    @each
    def test_links_lead_somewhere(self, text, p):
        for tag, key, value in p.attributes:
            if key == "href":
                self.assertIn(value[1:], p.ids)
            if key == "aria-labelledby":
                self.assertIn(value, p.ids)

    @each
    def test_policy_names_our_scripts_and_no_other(self, text, p):
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
        self.assertIn("default-src 'none'", policy)
        named = set(re.findall(r"'(sha256-[^']+)'", policy))
        code = [t for a, t in p.scripts if not a]
        hashes = {"sha256-" + base64.b64encode(hashlib.sha256(c.encode()).digest()).decode() for c in code}
        self.assertEqual(named, hashes)
        self.assertTrue(1 <= len(code) <= 2)

    @each
    def test_size(self, text, p):
        self.assertLess(len(text.encode()), 1000000)

    def test_data_is_the_json_report(self):
        sample = os.path.join(ROOT, "samples/item_sync.json.gz")
        report = json.loads(subprocess.run([GPUWHY, "read", "--json", "-", sample], stdout=subprocess.PIPE, timeout=60).stdout)
        data = {a["id"]: json.loads(t) for a, t in self.page["item_sync"].scripts if a}
        self.assertEqual(data["gw-report"], report)
        self.assertEqual(set(data), {"gw-report", "gw-timeline", "gw-labels"})

    def test_timeline_adds_up(self):
        """The idle spans that are drawn hold the whole window's idle time, merged or not."""
        for name in ("item_sync", "launch_bound_infer", "slow_read", "hostile"):
            with self.subTest(page=name):
                data = {a["id"]: json.loads(t) for a, t in self.page[name].scripts if a}
                lane = data["gw-timeline"]["lanes"][0]
                merged = {lane["merged"][i]: lane["merged"][i + 1:i + 3] for i in range(0, len(lane["merged"]), 3)}
                idle = sum(merged[i][1] if i in merged else ns for i, ns in enumerate(lane["ns"]))
                report = data["gw-report"]
                main = next(d for d in report["devices"] if d["main"])
                self.assertEqual(idle, main["whole"]["idle_ns"])
                self.assertEqual(sum(merged[i][0] if i in merged else 1 for i in range(len(lane["ns"]))), lane["all"])
                for l in data["gw-timeline"]["lanes"]:
                    n = len(l["at"])
                    for key in ("ns", "kind", "name"):
                        self.assertIn(len(l.get(key, l["at"])), (n,), key)
                    self.assertLess(max([-1] + l.get("name", [])), len(data["gw-timeline"]["names"]))

    def test_hostile_names_are_text(self):
        for name in ("hostile", "made-hostile"):
            p = self.page[name]
            self.assertEqual([t for t, _, _ in p.attributes if t in ("img", "iframe", "object", "embed", "base", "form", "a-b")], [])
            self.assertEqual(len([a for a, _ in p.scripts if not a]), len([a for a, _ in self.page["item_sync"].scripts if not a]))
        text = self.text["hostile"]
        self.assertFalse("</script><img" in text)
        self.assertFalse("\u202e" in re.sub(r"<script.*?</script>", "", text, flags=re.S))
        for mark in ("\u2028", "\u2029", "\x1b"):
            self.assertFalse(mark in text, repr(mark))
        self.assertTrue("window.pwned=1" in "".join(self.page["hostile"].words))

    def test_what_a_report_must_say(self):
        words = " ".join("".join(self.page["item_sync"].words).split())
        for part in ("Your GPU waits", "host-sync", "launch-bound", "Where the time goes", "Timeline", "Step times", "Idle time by",
                     "Trust", "Not evaluated", "gpuwhy diff before.json after.json"):
            self.assertIn(part, words)
        self.assertIn("no GPU", "".join(self.page["made-no-gpu"].words))

    @each
    def test_headings_are_in_order(self, text, p):
        levels = [int(m) for m in re.findall(r"<h([1-6])", re.sub(r"<script.*?</script>", "", text, flags=re.S))]
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        for a, b in zip(levels, levels[1:]):
            self.assertLessEqual(b, a + 1)


class TestCommand(unittest.TestCase):
    sample = os.path.join(ROOT, "samples/embed.json.gz")

    def run_it(self, *args, **kw):
        return html_pages.run([GPUWHY, *args], **kw)

    def test_standard_output(self):
        p = self.run_it("read", "--html", "-", self.sample)
        self.assertEqual(p.returncode, 0)
        self.assertTrue(p.stdout.startswith(b"<!DOCTYPE html>"))
        self.assertTrue(p.stdout.endswith(b"</html>\n"))

    def test_text_comes_too(self):
        with tempfile.TemporaryDirectory() as d:
            p = self.run_it("read", "--html", d + "/r.html", self.sample)
            self.assertIn(b"Trust", p.stdout)
            q = self.run_it("read", "--quiet", "--html", d + "/q.html", self.sample)
            self.assertEqual(q.stdout, b"")
            self.assertEqual(html_pages.read(d + "/r.html"), html_pages.read(d + "/q.html"))

    def refused(self, status, words, *args):
        p = self.run_it(*args)
        self.assertEqual(p.returncode, status, p.stderr)
        self.assertIn(words, p.stderr.decode())

    def test_refusals(self):
        self.refused(2, "fits into standard output", "read", "--html", "-", "--json", "-", self.sample)
        self.refused(2, "needs a file name", "read", "--html", "", self.sample)
        self.refused(2, "name the same file", "read", "--html", "x", "--json", "x", self.sample)
        self.refused(4, "cannot be written", "read", "--quiet", "--html", "/nonexistent/x.html", self.sample)
        with tempfile.TemporaryDirectory() as d:
            copy = d + "/t.json.gz"
            with open(self.sample, "rb") as a, open(copy, "wb") as b:
                b.write(a.read())
            self.refused(2, "would overwrite", "read", "--html", copy, copy)
            self.refused(2, "would overwrite", "diff", "--html", copy, copy, self.sample)
        if os.path.exists("/dev/full"):
            self.refused(4, "cannot be written", "read", "--quiet", "--html", "/dev/full", self.sample)

    def test_saved_report_follows_no_path(self):
        """A JSON report names the file that it came from; a page made of it has no timeline, whether that file is there or not."""
        with tempfile.TemporaryDirectory() as d:
            self.run_it("read", "--quiet", "--json", d + "/r.json", self.sample)
            p = self.run_it("read", "--quiet", "--html", d + "/r.html", d + "/r.json")
            if b"jansson" in p.stderr:
                self.skipTest("built without jansson")
            self.assertEqual(p.returncode, 0, p.stderr)
            page = Page(html_pages.read(d + "/r.html"))
            self.assertIn("gw-report", page.ids)
            self.assertNotIn("gw-timeline", page.ids)

    def test_a_long_run_is_not_lost(self):
        """Where the report cannot be written, the job is not even started."""
        if b"\n  run" not in self.run_it("--help").stdout:
            self.skipTest("built without gpuwhy run")
        with tempfile.TemporaryDirectory() as d:
            p = self.run_it("run", "-o", d + "/rec", "--html", "/nonexistent/r.html", "--", "touch", d + "/started")
            self.assertEqual(p.returncode, 125, p.stderr)
            self.assertIn("cannot be written", p.stderr.decode())
            self.assertFalse(os.path.exists(d + "/started"))
            p = self.run_it("run", "-o", d + "/rec", "--html", d + "/r.html", "--", "touch", d + "/started")
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertIn("no GPU", "".join(Page(html_pages.read(d + "/r.html")).words))

    def test_ranks_have_a_timeline(self):
        """A report over ranks takes the timeline from the main rank's recording."""
        with tempfile.TemporaryDirectory() as d:
            for rank in range(2):
                events = []
                for step in range(5):
                    for i in range(4):
                        t, c = step * 1000 + i * 200 + rank * 20, step * 8 + i * 2 + 1
                        events.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=1, ts=t, dur=5, args={"correlation": c}))
                        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if i == 3 else "gemm"
                        args = {"correlation": c, "device": rank, "stream": 7}
                        if i == 3:
                            args.update({"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", "Process Group Ranks": "[0, 1]", "Group size": 2})
                        events.append(dict(ph="X", cat="kernel", name=name, pid=rank, tid=7, ts=t + 10, dur=100 if i < 3 else 110 - rank * 20, args=args))
                with open(f"{d}/rank{rank}.json", "w") as f:
                    json.dump({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}, "traceEvents": events}, f)
            p = self.run_it("read", "--quiet", "--html", d + "/r.html", d)
            self.assertEqual(p.returncode, 0, p.stderr)
            page = Page(html_pages.read(d + "/r.html"))
            self.assertIn("ranks", page.ids)
            self.assertIn("gw-timeline", page.ids)


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main(verbosity=1)
