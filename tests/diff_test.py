#!/usr/bin/env python3
"""`gpuwhy diff` as a user meets it, and JSON reports read back.

usage: diff_test.py GPUWHY SAMPLES TRACES [NAME...]
"""
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from job_sim import Job
from needs import NO_REPORTS, reads_reports

GPUWHY, SAMPLES, TRACES = (os.path.abspath(p) for p in sys.argv[1:4])
OK, GATE, USAGE, INPUT = 0, 1, 2, 3
SYNC, SYNC_FIX = (os.path.join(SAMPLES, f"item_sync{x}.json.gz") for x in ("", ".fix"))
FP32 = os.path.join(SAMPLES, "fp32.json.gz")
FP32_FIX = os.path.join(TRACES, "h200", "fp32.fix.json.gz")
ALL = [os.path.join(SAMPLES, f) for f in sorted(os.listdir(SAMPLES)) if f.endswith(".json.gz")]


def run(*args, **kw):
    p = subprocess.run([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                       env={**os.environ, "LC_ALL": "C.UTF-8"}, **kw)
    p.out, p.err = p.stdout.decode("utf-8"), p.stderr.decode("utf-8")
    return p


def flow(text):
    return " ".join(text.split())


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuwhy-diff-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def diff(self, a, b, *args):
        p = run("diff", "--json", "-", a, b, *args)
        self.assertEqual(p.returncode, OK, p.err)
        d = json.loads(p.out)
        self.assertEqual(d["schema"], "gpuwhy.diff/1")
        if d["why_not"] is None:
            for side in ("a", "b"):  # parts add up to the mean step
                self.assertAlmostEqual(sum(r[side + "_ns"] for r in d["parts"]) / d[side]["mean_ns"], 1, 6)
        return d

    def part(self, d, name):
        return next(r for r in d["parts"] if r["part"] == name)


class TestAnswers(Case):
    def test_item_sync(self):
        d = self.diff(SYNC, SYNC_FIX)
        self.assertEqual(d["change"], "faster")
        self.assertLess(d["step"]["ratio_high"], 1)
        self.assertTrue(self.part(d, "idle")["real"])
        self.assertLess(self.part(d, "idle")["change_ns"], -5e6)
        gone = {r["cause"]: r for r in d["causes"]}
        self.assertEqual(gone["host-sync"]["b_ns"], 0)
        self.assertEqual(d["promise"]["finding"], "host-sync")
        self.assertLess(d["promise"]["still_to_gain"], 1.1)
        p = run("diff", SYNC, SYNC_FIX)
        self.assertEqual((p.returncode, p.err), (OK, ""))
        self.assertRegex(flow(p.out), r"^B is [\d.]+× as fast as A: a step takes 8\.9\d ms instead of 16\.\d ms")
        self.assertTrue(all(len(line) <= 80 for line in p.out.splitlines()))

    @unittest.skipUnless(os.path.exists(FP32_FIX), "the labelled traces are not there")
    def test_fp32(self):
        d = self.diff(FP32, FP32_FIX)
        self.assertEqual(d["change"], "faster")
        self.assertGreater(1 / d["step"]["ratio"], 5)
        self.assertEqual(d["promise"]["outcome"], "within")
        first = d["kernels"][0]
        self.assertIn("f32f32_f32f32", first["name"])
        self.assertEqual((first["a_count"], first["b_count"]), (4, 0))
        self.assertTrue(first["real"])
        self.assertTrue(self.part(d, "compute")["real"])

    def test_itself(self):
        for f in ALL:
            d = self.diff(f, f)
            self.assertEqual((d["change"], d["step"]["ratio"]), ("same", 1), f)
            self.assertFalse(any(r["real"] for t in ("parts", "causes", "kernels", "kernel_classes") for r in d[t]), f)
            self.assertTrue(d["same_work"])

    def test_jittered(self):
        """Every operation moved by up to 1 % of a step's length and stretched by up to 1 %: the same job, recorded again."""
        for f in (FP32, SYNC_FIX):
            with gzip.open(f, "rt") as g:
                doc = json.load(g)
            for seed in range(3):
                rnd = random.Random(seed)
                pace = 1 + 0.01 * (rnd.random() - 0.5)
                copy = json.loads(json.dumps(doc))
                base = min(e["ts"] for e in copy["traceEvents"] if e.get("ph") == "X")
                for e in copy["traceEvents"]:
                    if "ts" in e:
                        e["ts"] = round(base + (e["ts"] - base) * pace, 3)
                    if e.get("cat") == "kernel":
                        e["dur"] = round(e["dur"] * (1 - 0.01 * rnd.random()), 3)
                with gzip.open(self.path("j.json.gz"), "wt", compresslevel=1) as g:
                    json.dump(copy, g)
                d = self.diff(f, self.path("j.json.gz"))
                self.assertEqual(d["change"], "same", (f, seed, d["step"]))
                self.assertIn("No real change", run("diff", f, self.path("j.json.gz")).out)

    def test_other_way_round(self):
        there, back = self.diff(SYNC, SYNC_FIX), self.diff(SYNC_FIX, SYNC)
        self.assertEqual(back["change"], "slower")
        self.assertAlmostEqual(there["step"]["ratio"] * back["step"]["ratio"], 1, 9)
        self.assertIsNone(back["promise"])

    def test_scaling(self):
        one, four = Job(1), Job(4)
        one.world_size = 0
        four.data_wait[3] = 4000
        one.write(self.dir, name="one.json.gz")
        os.mkdir(self.path("four"))
        four.write(self.path("four"))
        d = self.diff(self.path("one.json.gz"), self.path("four"))
        s = d["scaling"]
        self.assertEqual((s["few"], s["many"], s["many_is"]), (1, 4, "b"))
        self.assertAlmostEqual(s["efficiency"], one.step_us() / four.step_us(), 1)
        self.assertIn("multi-gpu-scaling", flow(run("diff", self.path("one.json.gz"), self.path("four")).out))

    def test_no_steps(self):
        doc = Job(1, steps=1).trace(0)
        with open(self.path("t.json"), "w") as f:
            json.dump(doc, f)
        d = self.diff(SYNC, self.path("t.json"))
        self.assertEqual(d["why_not"], "no steps were found in B")
        self.assertEqual(d["change"], "unknown")
        p = run("diff", "--fail-if", "step>+5%", SYNC, self.path("t.json"))
        self.assertEqual(p.returncode, GATE)  # a gate that checks nothing must not pass
        self.assertIn("cannot be told", p.err)


@unittest.skipUnless(reads_reports(GPUWHY), NO_REPORTS)
class TestReports(Case):
    def saved(self, trace, name):
        p = run("read", "--quiet", "--json", self.path(name), trace)
        self.assertEqual(p.returncode, OK, p.err)
        return self.path(name)

    def test_read_back(self):
        """A report that is read and written again is the same, byte by byte."""
        for f in ALL:
            first = self.saved(f, "r.json")
            with open(first, "rb") as g:
                want = g.read()
            p = run("read", "--json", "-", first)
            self.assertEqual((p.returncode, p.err), (OK, ""))
            self.assertEqual(p.stdout, want, f)

    def test_read_back_ranks(self):
        job = Job()
        job.data_wait[3] = 8000
        os.mkdir(self.path("job"))
        job.write(self.path("job"))
        first = self.saved(self.path("job"), "r.json")
        with open(first, "rb") as g:
            self.assertEqual(run("read", "--json", "-", first).stdout, g.read())

    def test_text_of_a_saved_report(self):
        self.assertEqual(run("read", self.saved(SYNC, "r.json")).out, run("read", SYNC).out)

    def test_reports_instead_of_recordings(self):
        want = self.diff(SYNC, SYNC_FIX)
        a, b = self.saved(SYNC, "a.json"), self.saved(SYNC_FIX, "b.json")
        for x, y in ((a, b), (a, SYNC_FIX), (SYNC, b)):
            got = self.diff(x, y)
            for side in ("a", "b"):
                got[side]["path"] = want[side]["path"]
            self.assertEqual(got, want)

    def test_compressed_report(self):
        a = self.saved(SYNC, "a.json")
        with open(a, "rb") as f, gzip.open(self.path("a.json.gz"), "wb") as g:
            g.write(f.read())
        self.assertEqual(self.diff(self.path("a.json.gz"), SYNC)["change"], "same")

    def refused(self, data, *words):
        with open(self.path("bad.json"), "wb") as f:
            f.write(data)
        p = run("diff", self.path("bad.json"), SYNC)
        self.assertEqual(p.returncode, INPUT, p.err)
        self.assertEqual(p.out, "")
        for w in ("bad.json", *words):
            self.assertIn(w, p.err)

    def test_damaged_reports(self):
        with open(self.saved(SYNC, "r.json"), "rb") as f:
            good = f.read()
        self.refused(good[: len(good) // 2], "no valid JSON")
        self.refused(good.replace(b"gpuwhy.report/1", b"gpuwhy.report/9"), "schema")
        self.refused(re.sub(rb'"wall_ns": \d+', b'"wall_ns": -5', good), "wall_ns")
        self.refused(re.sub(rb'"wall_ns": \d+', b'"wall_ns": "long"', good), "wall_ns")
        self.refused(re.sub(rb'"wall_ns": \d+', b'"wall_ns": 9223372036854775807', good), "wall_ns")
        self.refused(good.replace(b'"devices": [', b'"devices": [5, '), "devices")
        self.refused(re.sub(rb'"times_ns": \[', b'"times_ns": [null, ', good), "times_ns")
        self.refused(b'{"schema": "gpuwhy.report/1"}', "verdict")
        self.refused(b'{"schema": "gpuwhy.report/1", "schema": "gpuwhy.report/1"}', "duplicate")

    def test_bare_report(self):
        """Older or hand-made reports hold less: what is missing is not known."""
        with open(self.path("bare.json"), "w") as f:
            json.dump({"schema": "gpuwhy.report/1", "verdict": {"finding": "none"}}, f)
        d = self.diff(self.path("bare.json"), SYNC)
        self.assertEqual(d["why_not"], "A holds no GPU work")
        self.assertEqual(run("read", self.path("bare.json")).returncode, OK)

    def test_reports_are_not_ranks(self):
        a, b = self.saved(SYNC, "a.json"), self.saved(SYNC_FIX, "b.json")
        p = run("read", "--json", "-", a, b)
        self.assertEqual((p.returncode, p.out), (USAGE, ""))
        self.assertIn("not recordings", p.err)


class TestGates(Case):
    def gate(self, *gates, a=SYNC_FIX, b=SYNC, more=()):
        args = [x for g in gates for x in ("--fail-if", g)]
        return run("diff", "--quiet", *args, *more, a, b)

    def test_crossed(self):
        for gate in ("step>+5%", "mean>+1ms", "step>10ms", "idle>+100%", "idle>30%", "cause:host-sync>+1ms", "kernel:reduce>+100us"):
            p = self.gate(gate)
            self.assertEqual((p.returncode, p.out), (GATE, ""), gate)
            self.assertIn(gate, p.err)

    def test_not_crossed(self):
        for gate in ("step>+500%", "step>1s", "comm>+1%", "copies>+1ms", "compute<10%", "kernel:nothing>+1%", "cause:checkpoint>+1ms"):
            p = self.gate(gate)
            self.assertEqual((p.returncode, p.out, p.err), (OK, "", ""), gate)

    def test_one_of_several(self):
        self.assertEqual(self.gate("step>+500%", "step>+5%").returncode, GATE)

    def test_no_gate_no_failure(self):
        self.assertEqual(run("diff", "--quiet", SYNC_FIX, SYNC).returncode, OK)

    def test_in_the_reports(self):
        p = run("diff", "--fail-if", "step>+5%", "--json", self.path("d.json"), SYNC_FIX, SYNC)
        self.assertEqual(p.returncode, GATE)
        self.assertRegex(flow(p.out), r"step>\+5%: \+\d+\.\d %, crossed")
        with open(self.path("d.json")) as f:
            gates = json.load(f)["gates"]
        self.assertEqual([(g["gate"], g["unit"], g["crossed"]) for g in gates], [("step>+5%", "%", True)])

    def test_noise(self):
        """10 % where the host sets the pace is noise by default, but not on a machine known to be quiet."""
        job, slower = Job(1), Job(1)
        for j, launch in ((job, 200.0), (slower, 220.0)):
            j.launch_us, j.world_size = launch, 0
        a, b = job.write(self.dir, name="a.json.gz")[0], slower.write(self.dir, name="b.json.gz")[0]
        self.assertEqual(self.gate("step>+5%", a=a, b=b).returncode, OK)
        self.assertEqual(self.gate("step>+5%", a=a, b=b, more=("--strict",)).returncode, GATE)
        self.assertEqual(self.gate("step>+5%", a=a, b=b, more=("--noise=1",)).returncode, GATE)


class TestUsage(Case):
    def test_wrong(self):
        for args in ((), (SYNC,), (SYNC, SYNC, SYNC), ("--fail-if", "step>5", SYNC, SYNC), ("--noise=x", SYNC, SYNC),
                     ("--noise=-1", SYNC, SYNC), ("--json=", SYNC, SYNC)):
            p = run("diff", *args)
            self.assertEqual((p.returncode, p.out), (USAGE, ""), args)

    def test_missing_file(self):
        p = run("diff", SYNC, self.path("nothing.json"))
        self.assertEqual((p.returncode, p.out), (INPUT, ""))
        self.assertIn("nothing.json", p.err)

    def test_does_not_overwrite(self):
        copy = self.path("t.json.gz")
        shutil.copy(SYNC, copy)
        p = run("diff", "--json", copy, SYNC, copy)
        self.assertEqual(p.returncode, USAGE)
        self.assertEqual(os.path.getsize(copy), os.path.getsize(SYNC))

    def test_strange_names(self):
        strange = self.path("\033[31mx\n.json.gz")
        shutil.copy(SYNC, strange)
        p = run("diff", strange, SYNC)
        self.assertEqual(p.returncode, OK)
        self.assertNotIn("\033", p.out + p.err)
        json.loads(run("diff", "--json", "-", strange, SYNC).out)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[4:], exit=False, verbosity=1).result
    sys.exit(not result.wasSuccessful())
