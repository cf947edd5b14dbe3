#!/usr/bin/env python3
"""The ranks of a job through the program: simulated jobs whose trouble is known, a real job of eight ranks, misfits.

usage: ranks_test.py GPUWHY TRACES [NAME...]
Nothing is written outside a temporary folder.
"""
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from check_json import check
from job_sim import Job

GPUWHY, TRACES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
OK, USAGE, INPUT = 0, 2, 3
DLRM = os.path.join(TRACES, "kineto", "dlrm8")


def run(*args, **kw):
    p = subprocess.run([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240,
                       env={**os.environ, "LC_ALL": "C.UTF-8"}, **kw)
    p.out, p.err = p.stdout.decode("utf-8"), p.stderr.decode("utf-8")
    return p


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuwhy-ranks-")
        self.addCleanup(shutil.rmtree, self.dir)

    def read(self, *args):
        p = run("read", "--quiet", "--json", "-", *args)
        self.assertEqual(p.returncode, OK, p.err)
        r = json.loads(p.out)
        self.assertEqual(list(check(r)), [])
        return r

    def job(self, job, ranks=None):
        job.write(self.dir, ranks)
        return self.read(self.dir)

    def finding(self, report, name):
        return next((f for f in report["findings"] if f["id"] == name), None)

    def straggler(self, report, rank, reason=None):
        f = self.finding(report, "straggler")
        self.assertIsNotNone(f, report["verdict"])
        self.assertRegex(f["where"][0]["text"], rf"^rank {rank}\b")
        if reason:
            self.assertIn(reason, f["where"][0]["text"])
        return f

    def close(self, f, truth, percent=6):
        """The gain is what the simulation without the trouble gains."""
        g = f["gain"]
        self.assertLess(abs(g["likely"] / truth - 1), percent / 100, f"{g} for {truth}")
        self.assertTrue(g["low"] <= truth <= g["high"] * 1.02, f"{g} for {truth}")


class TestSimulated(Case):
    def test_balanced(self):
        r = self.job(Job())
        self.assertEqual(r["verdict"]["finding"], "none")
        self.assertIsNone(self.finding(r, "straggler"))
        self.assertEqual(r["source"]["ranks"], 4)
        self.assertEqual([k["rank"] for k in r["per_rank"]], [0, 1, 2, 3])
        self.assertEqual(sorted(d["rank"] for d in r["devices"]), [0, 1, 2, 3])
        self.assertEqual(len(r["source"]["files"]), 4)

    def test_late_for_data(self):
        job = Job()
        job.data_wait[3] = 8000
        r = self.job(job)
        self.assertEqual(r["verdict"]["finding"], "straggler")
        f = self.straggler(r, 3, "data-wait")
        self.assertEqual(f["confidence"], "high")
        self.close(f, job.step_us() / Job().step_us())
        self.assertEqual(r["per_rank"][3]["wait_exposed_ns"], 0)
        self.assertGreater(r["per_rank"][0]["wait_exposed_ns"], 6 * 7_000_000)

    def test_slow_gpu(self):
        job = Job()
        job.kernel_us[2] = 156
        f = self.straggler(self.job(job), 2, "computing")
        self.close(f, job.step_us() / Job().step_us())
        self.assertTrue(any("no more kernels" in e["text"] for e in f["evidence"]))

    def test_more_work(self):
        job = Job()
        job.kernels[1] = 11
        f = self.straggler(self.job(job), 1, "computing")
        self.close(f, job.step_us() / Job().step_us())
        self.assertTrue(any("more work" in e["text"] for e in f["evidence"]))

    def test_two_of_eight(self):
        job, good = Job(8, steps=10), Job(8, steps=10)
        job.kernel_us[5] = job.kernel_us[7] = 150
        f = self.finding(self.job(job), "straggler")
        self.assertEqual({w["text"].split(":")[0] for w in f["where"]}, {"rank 5", "rank 7"})
        self.close(f, job.step_us() / good.step_us())

    def test_in_turn(self):
        job = Job(steps=14)
        for step in range(14):
            job.late_at[(step % 4, step)] = 8000
        f = self.finding(self.job(job), "straggler")
        self.assertEqual(f["confidence"], "low")
        self.assertTrue(any("in turn" in e["text"] for e in f["against"]))
        self.assertLess(f["gain"]["low"], 1.1)
        self.assertGreater(f["gain"]["high"], 1.4)

    def test_single_incident(self):
        job = Job()
        job.late_at[(2, 4)] = 30000
        f = self.straggler(self.job(job), 2)
        self.assertEqual(f["confidence"], "low")
        self.assertTrue(any("single incident" in e["text"] for e in f["against"]))

    def test_groups(self):
        job, good = Job(), Job()
        job.pairs = good.pairs = True
        job.data_wait[1] = 5000
        r = self.job(job)
        f = self.straggler(r, 1, "data-wait")
        self.close(f, job.step_us() / good.step_us(), 10)
        self.assertEqual({(c["kind"], c["ranks"]) for c in r["collectives"]}, {("AllGather", 2), ("AllReduce", 4)})

    def test_links(self):
        job = Job()
        job.transfer_us = 4000
        r = self.job(job)
        self.assertEqual(r["verdict"]["finding"], "comm-slow-link")
        want = 50e6 * 2 * 3 / 4 / 4000e-6  # of the first bucket
        self.assertTrue(any(abs(c["bus_bandwidth"] / want - 1) < 0.01 for c in r["collectives"]))
        job = Job()
        r = self.job(job)
        self.assertIsNone(self.finding(r, "comm-slow-link"))
        self.assertNotIn("comm-slow-link", [n["id"] for n in r["not_evaluated"]])
        job.gpu = "NVIDIA A10G"  # no link known by its name
        job._events = None
        r = self.job(job)
        self.assertIn("comm-slow-link", [n["id"] for n in r["not_evaluated"]])

    def test_a_fix_where_it_does_not_matter(self):
        """Rank 1 waits for data, but rank 3 is later still: mending rank 1 gains the job nothing."""
        job = Job()
        job.data_wait[1], job.kernel_us[3] = 2000, 220
        r = self.job(job)
        f = self.straggler(r, 3, "computing")
        other = self.finding(r, "loader-starved")
        self.assertTrue(other is None or other["gain"]["likely"] < 1.02, other)

    def test_clocks_do_not_matter(self):
        job = Job()
        job.data_wait[3] = 8000
        first = self.job(job)
        job.offset = [0.0, 3_000_000.5, 17.0, 900.25]
        second = self.job(job)
        a, b = (self.finding(r, "straggler")["gain"] for r in (first, second))
        self.assertAlmostEqual(a["likely"], b["likely"], 3)

    def test_different_spans(self):
        """Ranks that began to record in different steps are matched by the numbers of the steps."""
        job = Job(steps=12)
        job.data_wait[3] = 8000
        job.skip = [0, 3, 1, 2]
        f = self.straggler(self.job(job), 3, "data-wait")
        self.close(f, job.step_us() / Job(steps=12).step_us(), 8)

    def test_missing_rank(self):
        job = Job()
        job.data_wait[3] = 8000
        r = self.job(job, [0, 2, 3])
        f = self.straggler(r, 3)
        self.assertTrue(any("are not here" in e["text"] for e in f["against"]))
        self.assertEqual(r["source"]["ranks"], 3)
        self.assertEqual(r["source"]["world_size"], 4)

    def test_late_rank_missing(self):
        """Without the late rank the others seem to exchange data slowly. That must not be blamed on the links."""
        job = Job()
        job.data_wait[3] = 8000
        r = self.job(job, [0, 1])
        self.assertIsNone(self.finding(r, "comm-slow-link"))
        self.assertIn("comm-slow-link", [n["id"] for n in r["not_evaluated"]])
        self.assertTrue(all(c["bus_bandwidth"] is None for c in r["collectives"]))
        f = self.finding(r, "comm-exposed")
        self.assertTrue(any("are not here" in e["text"] for e in f["against"]))

    def test_order_of_files(self):
        job = Job()
        job.data_wait[3] = 8000
        paths = job.write(self.dir)
        f = self.straggler(self.read(*reversed(paths)), 3)
        self.close(f, job.step_us() / Job().step_us())

    def test_rank_in_the_name_only(self):
        job = Job()
        job.data_wait[2] = 8000
        job.world_size = 0
        self.straggler(self.job(job), 2, "data-wait")

    def test_text(self):
        job = Job()
        job.data_wait[3] = 8000
        job.write(self.dir)
        p = run("read", self.dir)
        self.assertEqual((p.returncode, p.err), (OK, ""))
        self.assertIn("rank 3 comes late", p.out.replace("\n", " "))
        self.assertRegex(p.out, r"(?m)^ rank +compute +waiting +exchange")
        self.assertRegex(p.out, r"(?m)^   3 ")
        self.assertTrue(all(len(line) <= 80 for line in p.out.splitlines()))


class TestMisfits(Case):
    def refused(self, p, *words):
        self.assertEqual(p.out, "")
        for w in words:
            self.assertIn(w, p.err)

    def test_other_world(self):
        a = Job(2).write(self.dir, [0])
        job = Job(4)
        b = job.write(self.dir, [1])
        p = run("read", "--json", "-", *a, *b)
        self.assertEqual(p.returncode, USAGE)
        self.refused(p, "a job of 2 ranks", "of 4")
        p = run("read", *a, *b)
        self.assertEqual(p.returncode, OK)
        self.assertIn("a job of 2 ranks", p.err)
        self.assertEqual(p.out.count("\n== ") + p.out.startswith("== "), 2)

    def test_same_rank_twice(self):
        paths = Job().write(self.dir, [0, 1])
        shutil.copy(paths[1], os.path.join(self.dir, "copy.json.gz"))
        p = run("read", "--json", "-", self.dir)
        self.assertEqual(p.returncode, INPUT)
        self.refused(p, "are both rank 1")

    def test_another_run_of_the_job(self):
        """Same job, same numbers of steps, other time: the ends of the collectives do not go together."""
        one, two = Job(), Job(seed=7)
        for step in range(8):
            one.late_at[(0, step)] = 3000 + 2500 * (step * 5 % 7)
            two.late_at[(1, step)] = 3000 + 2500 * (step * 3 % 7)
        a, b = one.write(self.dir, [0]), two.write(self.dir, [1])
        p = run("read", "--json", "-", *a, *b)
        self.assertEqual(p.returncode, USAGE)
        self.refused(p, "do not end together")

    def test_folder_with_other_things(self):
        job = Job()
        job.data_wait[3] = 8000
        job.write(self.dir)
        os.mkdir(os.path.join(self.dir, "logs"))
        for name, data in (("notes.txt", b"hello"), ("config.json", b'{"lr": 1}'), ("broken.json.gz", b"\x1f\x8b\x08\x00xx"), (".hidden.json", b"{")):
            with open(os.path.join(self.dir, name), "wb") as f:
                f.write(data)
        p = run("read", "--json", "-", "--quiet", self.dir)
        self.assertEqual(p.returncode, OK, p.err)
        self.assertEqual(json.loads(p.out)["verdict"]["finding"], "straggler")
        self.assertIn("config.json", p.err)
        self.assertNotIn("notes.txt", p.err)

    def test_empty_folder(self):
        p = run("read", self.dir)
        self.assertEqual(p.returncode, INPUT)
        self.refused(p, "no recordings in this folder")

    def test_unrelated_recordings_say_nothing(self):
        """Two recordings of single-GPU jobs are read one after the other, without a word about ranks."""
        for r in range(2):
            doc = Job(1, layers=2).trace(0)
            del doc["distributedInfo"]
            doc["traceEvents"] = [e for e in doc["traceEvents"] if "nccl" not in e["name"]]
            with gzip.open(os.path.join(self.dir, f"t{r}.json.gz"), "wt") as f:
                json.dump(doc, f)
        p = run("read", *(os.path.join(self.dir, f"t{r}.json.gz") for r in range(2)))
        self.assertEqual((p.returncode, p.err), (OK, ""))
        self.assertEqual(p.out.count("== "), 2)

    def test_cut_rank(self):
        job = Job()
        job.data_wait[3] = 8000
        paths = job.write(self.dir)
        with open(paths[1], "rb") as f:
            data = f.read()
        with open(paths[1], "wb") as f:
            f.write(data[: len(data) * 3 // 4])
        r = self.read(self.dir)
        self.assertFalse(r["trust"]["complete"])
        self.assertIsNotNone(self.finding(r, "straggler"))


@unittest.skipUnless(os.path.isdir(DLRM), "dlrm8 is not there")
class TestDlrm(Case):
    """Eight real ranks. What the report says is computed here from the files, in another way."""

    @classmethod
    def setUpClass(cls):
        cls.colls = []
        for r in range(8):
            with gzip.open(os.path.join(DLRM, f"rank{r}.json.gz"), "rt") as f:
                events = json.load(f)["traceEvents"]
            cls.colls.append(sorted((e["ts"], e["dur"]) for e in events if e.get("cat") == "kernel" and "nccl" in e["name"]))

    def test_waits(self):
        r = self.read(DLRM)
        self.assertEqual(r["source"]["ranks"], 8)
        n = len(self.colls[0])
        shortest = [min(self.colls[k][i][1] for k in range(8)) for i in range(n)]
        last = [min(range(8), key=lambda k: self.colls[k][i][1]) for i in range(n)]
        for k, row in enumerate(r["per_rank"]):
            self.assertEqual(row["rank"], k)
            # the first collective counts for the wait, not for who is last: nothing is recorded before it
            self.assertEqual(row["arrived_last"], last[1:].count(k))
            self.assertEqual(row["transfer_ns"], 1000 * sum(shortest[1:]))
            waits = [1000 * (self.colls[k][i][1] - shortest[i]) for i in range(n)]
            self.assertGreaterEqual(row["wait_ns"], sum(waits[1:]))
            self.assertLessEqual(row["wait_ns"], sum(waits) + 1000 * n)

    def test_matching_is_seen(self):
        f = self.finding(self.read(DLRM), "straggler")
        spread = next(e["value"] for e in f["evidence"] if "end within" in e["text"])
        self.assertLess(spread, 10_000)  # in the files they end at most 7 us apart
        self.assertEqual(f["confidence"], "low")  # one step only

    def test_a_file_of_another_job(self):
        shutil.copy(os.path.join(DLRM, "rank0.json.gz"), self.dir)
        Job(8).write(self.dir, [3])
        p = run("read", "--json", "-", self.dir)
        self.assertEqual(p.returncode, INPUT)
        self.assertIn("run different kernels", p.err)


if __name__ == "__main__":
    result = unittest.main(argv=[sys.argv[0]] + sys.argv[3:], exit=False, verbosity=1).result
    sys.exit(not result.wasSuccessful())
