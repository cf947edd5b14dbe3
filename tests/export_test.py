#!/usr/bin/env python3
"""`gpuwhy export`: the timeline as other programs read it, CSV as spreadsheets do; both against the report.

usage: export_test.py GPUWHY SAMPLES [NAME...]
"""
import collections
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from job_sim import Job
from needs import NO_REPORTS, reads_reports

GPUWHY, SAMPLES = (os.path.abspath(p) for p in sys.argv[1:3])
OK, USAGE, INPUT, INTERNAL = 0, 2, 3, 4
SYNC, SMALL = (os.path.join(SAMPLES, f) for f in ("item_sync.json.gz", "embed.json.gz"))
ALL = [os.path.join(SAMPLES, f) for f in sorted(os.listdir(SAMPLES)) if f.endswith(".json.gz")]


def run(*args, **kw):
    p = subprocess.run([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                       env={**os.environ, "LC_ALL": "C.UTF-8"}, **kw)
    p.out, p.err = p.stdout.decode("utf-8"), p.stderr.decode("utf-8")
    return p


def rows(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuwhy-export-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def ok(self, *args):
        p = run("export", *args)
        self.assertEqual((p.returncode, p.err), (OK, ""))
        return p.out

    def report(self, trace):
        return json.loads(run("read", "--quiet", "--json", "-", trace).out)


class TestTimeline(Case):
    def timeline(self, trace, *args):
        doc = json.loads(self.ok("--quiet", trace, *args))
        self.assertEqual(set(doc), {"displayTimeUnit", "otherData", "traceEvents"})
        return doc["traceEvents"]

    def test_form(self):
        """What the trace event format asks for: phases, numbers, names; nothing before zero; spans of a track nest."""
        for trace in ALL:
            for args in ((), ("--host",)):
                tracks = collections.defaultdict(list)
                for e in self.timeline(trace, *args):
                    self.assertIn(e["ph"], "XMCsf")
                    self.assertTrue(isinstance(e["name"], str) and e["name"])
                    self.assertTrue(isinstance(e["pid"], int) and isinstance(e["tid"], int))
                    if e["ph"] != "M":
                        self.assertGreaterEqual(e["ts"], 0)
                    if e["ph"] == "X":
                        self.assertGreaterEqual(e["dur"], 0)
                        tracks[e["pid"], e["tid"]].append((round(e["ts"] * 1000), -round(e["dur"] * 1000)))
                for spans in tracks.values():
                    open_until = []
                    for start, minus in sorted(spans):
                        end = start - minus
                        while open_until and open_until[-1] <= start:
                            open_until.pop()
                        if open_until:
                            self.assertLessEqual(end, open_until[-1], trace)
                        open_until.append(end)

    def test_idle_adds_up(self):
        """Idle spans and busy spans tile the recording; the causes are those of the report, to the nanosecond."""
        for trace in ALL:
            r = self.report(trace)
            device = r["devices"][0]
            events = self.timeline(trace)
            by_cause = collections.Counter()
            for e in events:
                if e.get("cat") == "idle":
                    by_cause[e["name"]] += round(e["dur"] * 1000)
            self.assertEqual(by_cause, {c["cause"]: c["ns"] for c in device["whole_idle_by_cause"]}, trace)
            ops = [e for e in events if e.get("cat") in ("kernel", "copy", "set", "graph")]
            self.assertEqual(len(ops), device["whole"]["ops"])
            steps = [e for e in events if e.get("cat") == "step"]
            self.assertEqual(sum(e["args"]["steady"] for e in steps), r["steps"]["steady_count"])
            self.assertEqual(sum(round(e["dur"] * 1000) for e in steps if e["args"]["steady"]), device["steady"]["wall_ns"])

    def test_names_and_arrows(self):
        events = self.timeline(SYNC, "--host")
        names = {e["args"]["name"] for e in events if e["ph"] == "M" and "name" in e["args"]}
        self.assertTrue({"GPU 0 NVIDIA H200", "why idle", "steps", "what the launching host does"} <= names, names)
        self.assertTrue(any(n.startswith("stream 7") for n in names), names)
        out, back = ({e["id"]: e for e in events if e["ph"] == p} for p in "sf")
        self.assertGreater(len(out), 1000)
        self.assertEqual(set(out), set(back))
        self.assertTrue(all(out[i]["pid"] != back[i]["pid"] for i in out))
        self.assertFalse([e for e in self.timeline(SYNC) if e["ph"] in "sf" or e.get("cat") == "api"])
        culprits = {e["args"]["culprit"] for e in events if e.get("cat") == "idle" and e["name"] == "host-sync"}
        self.assertTrue(any("item" in c or "Synchronize" in c or "memcpy" in c.lower() for c in culprits if c), culprits)

    def test_queue_counter(self):
        values = [e["args"]["operations"] for e in self.timeline(SYNC) if e["ph"] == "C" and e["name"] == "issued, not begun"]
        self.assertTrue(values and min(values) == 0 and values[-1] == 0)

    def test_hostile_names(self):
        doc = Job(1, steps=3, layers=1).trace(0)
        evil = "=cmd|'/c calc'!A1\"\\\u2028\u0007</script>\r\n,x"
        for e in doc["traceEvents"]:
            if e["name"] == "layer_forward_kernel":
                e["name"] = evil
        with open(self.path("t.json"), "w") as f:
            json.dump(doc, f)
        events = self.timeline(self.path("t.json"))
        self.assertIn(evil, {e["name"] for e in events})
        raw = run("export", self.path("t.json"), "-o", "-").stdout
        self.assertFalse(set(raw) & set(range(0, 10)) or b"\x07" in raw or "\u2028".encode() in raw)
        table = rows(self.ok(self.path("t.json"), "--gaps", "-"))
        cells = {r["ended_by"] for r in table}
        self.assertTrue(any(c.startswith("'=cmd") and c.endswith(",x") for c in cells), cells)
        self.assertFalse(any(c[:1] in tuple("=+-@\t\r") for r in table for c in r.values() if not c.lstrip("-").isdigit() and c))


class TestTables(Case):
    def test_gaps(self):
        for trace in ALL:
            device = self.report(trace)["devices"][0]
            p = run("export", trace, "--gaps", "-")
            table = rows(p.out)
            self.assertEqual(p.out.count("\r\n"), len(table) + 1)  # RFC 4180
            self.assertEqual(sum(int(r["ns"]) for r in table), device["whole"]["idle_ns"])
            for r in table:
                self.assertEqual(int(r["end_ns"]) - int(r["start_ns"]), int(r["ns"]))
            gaps = collections.defaultdict(list)
            for r in table:
                gaps[r["gap"]].append(r)
            for pieces in gaps.values():  # pieces of one gap follow each other
                for a, b in zip(pieces, pieces[1:]):
                    self.assertEqual(a["end_ns"], b["start_ns"])

    def test_findings(self):
        r = self.report(SYNC)
        table = rows(self.ok(SYNC, "--findings", "-"))
        self.assertEqual([t["finding"] for t in table], [f["id"] for f in r["findings"]])
        for t, f in zip(table, r["findings"]):
            self.assertEqual(float(t["gain_likely"]), f["gain"]["likely"])
            self.assertEqual(int(t["lost_ns"]), f["lost_ns"])
            self.assertEqual(t["evidence"], "; ".join(e["text"] for e in f["evidence"]))
            self.assertTrue(t["fix"])

    @unittest.skipUnless(reads_reports(GPUWHY), NO_REPORTS)
    def test_findings_of_a_report(self):
        with open(self.path("r.json"), "wb") as f:
            f.write(run("read", "--quiet", "--json", "-", SYNC).stdout)
        self.assertEqual(self.ok(self.path("r.json"), "--findings", "-"), self.ok(SYNC, "--findings", "-"))

    def test_findings_of_a_folder(self):
        job = Job()
        job.data_wait[3] = 8000
        os.mkdir(self.path("job"))
        job.write(self.path("job"))
        self.assertEqual(rows(self.ok(self.path("job"), "--findings", "-"))[0]["finding"], "straggler")

    def test_several_at_once(self):
        self.assertEqual(self.ok(SMALL, "-o", self.path("t.json"), "--gaps", self.path("g.csv"), "--findings", self.path("f.csv")), "")
        with open(self.path("t.json"), "rb") as f:
            self.assertEqual(f.read(), run("export", SMALL).stdout)
        with open(self.path("g.csv"), "rb") as f:
            self.assertEqual(f.read(), run("export", SMALL, "--gaps", "-").stdout)
        self.assertTrue(os.path.getsize(self.path("f.csv")) > 50)


class TestUsage(Case):
    def test_wrong(self):
        for args in ((), (SMALL, SMALL), ("--gaps=", SMALL), ("--gaps", "-", "--findings", "-", SMALL), ("",)):
            p = run("export", *args)
            self.assertEqual((p.returncode, p.out), (USAGE, ""), args)

    def test_input(self):
        for args in ((self.path("no.json"),), (self.path("no.json"), "--findings", "-"), (self.dir,), (self.dir, "--findings", "-")):
            p = run("export", *args)
            self.assertEqual((p.returncode, p.out), (INPUT, ""), args)
            self.assertTrue(p.err.startswith("gpuwhy: "))

    def test_output(self):
        p = run("export", SMALL, "-o", self.path("no/such.json"))
        self.assertEqual(p.returncode, INTERNAL)
        copy = self.path("t.json.gz")
        shutil.copy(SMALL, copy)
        for option in ("-o", "--gaps", "--findings"):
            self.assertEqual(run("export", copy, option, copy).returncode, USAGE)
        self.assertEqual(os.path.getsize(copy), os.path.getsize(SMALL))

    def test_no_gpu(self):
        with open(self.path("t.json"), "w") as f:
            json.dump({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}]}, f)
        events = json.loads(self.ok(self.path("t.json")))["traceEvents"]
        self.assertEqual(events, [])
        self.assertEqual(rows(self.ok(self.path("t.json"), "--gaps", "-")), [])


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    sys.exit(not result.wasSuccessful())
