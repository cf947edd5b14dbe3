#!/usr/bin/env python3
"""`gpuwhy check` as a user sees it: exit statuses, JSON, the saved file, speed, no secrets.

usage: test_check.py GPUWHY FAKES TRACES
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

EXE, FAKES, TRACES = sys.argv[1:4]
TRACES = os.environ.get("GPUWHY_TRACES", TRACES)
HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(HERE, "fixtures", "check")
STATUSES = {"good", "look", "bad", "not_evaluated"}


def clean_env(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("NCCL_", "CUDA_", "TORCH", "PYTORCH", "OMP_", "GPUWHY_", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA"))}
    # The sanitizers look for leaks by ptrace, which a traced or confined process may not use.
    env.update({"LC_ALL": "C.UTF-8", "TERM": "dumb"})
    env.update(more)
    return env


def run(*args, env=None, timeout=60):
    return subprocess.run([EXE, "check", *args], capture_output=True, text=True, timeout=timeout, env=env or clean_env())


def report(*args, env=None, timeout=60):
    p = run(*args, "--json", "-", env=env, timeout=timeout)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def fake_gpus():
    return clean_env(LD_LIBRARY_PATH=FAKES, GPUWHY_FAKE_NVML=os.path.join(FIXTURES, "two_socket.nvml"), GPUWHY_FAKE_CUDA="")


class Contract(unittest.TestCase):
    def schema(self, j):
        self.assertEqual(j["schema"], "gpuwhy.check/1")
        for key in ("tool", "source", "summary", "checks", "findings", "not_evaluated", "note", "complete", "facts"):
            self.assertIn(key, j)
        self.assertEqual(sum(j["summary"].values()), len(j["checks"]))
        ids = [c["id"] for c in j["checks"]]
        self.assertEqual(len(ids), len(set(ids)))
        for c in j["checks"]:
            self.assertIn(c["status"], STATUSES)
            if c["status"] in ("good", "bad", "look"):
                self.assertTrue(c["value"], c)
            if c["status"] == "not_evaluated":
                self.assertTrue(c["needs"], c)
            if c["status"] in ("bad", "look"):
                self.assertTrue(c["fix"] or c["id"] == "gpus", c)
        for i, f in enumerate(j["findings"]):
            self.assertEqual(f["rank"], i + 1)
            self.assertTrue(f["phrase"] and f["layer"] and f["evidence"], f)
            self.assertIsNone(f["gain"]["likely"])  # a machine alone does not tell what a fix is worth
        self.assertEqual({n["id"] for n in j["not_evaluated"]}, {c["id"] for c in j["checks"] if c["status"] == "not_evaluated"})

    def test_no_gpu(self):
        start = time.time()
        p = run(env=clean_env(LD_LIBRARY_PATH="/nowhere"))
        took = time.time() - start
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("memory", p.stdout)
        self.assertIn("not evaluated", p.stdout)
        self.assertLess(took, 2.0 if os.environ.get("GPUWHY_SLOW") is None else 20)
        self.assertLessEqual(max(len(line) for line in p.stdout.splitlines()), 80)

    def test_live_json(self):
        self.schema(report())

    def test_json_of_every_capture(self):
        for name in sorted(os.listdir(os.path.join(FIXTURES, "captures"))):
            p = run(os.path.join(FIXTURES, "captures", name), "--json", "-")
            if p.returncode == 3 and name.endswith(".xml"):
                continue  # built without expat
            self.assertEqual(p.returncode, 0, name + p.stderr)
            self.schema(json.loads(p.stdout))

    def test_every_capture_of_others(self):
        folder = os.path.join(TRACES, "smi")
        if not os.path.isdir(folder):
            self.skipTest("no captures in " + folder)
        for name in sorted(os.listdir(folder)):
            p = run(os.path.join(folder, name), "--json", "-")
            if p.returncode == 3 and name.endswith(".xml"):
                continue
            self.assertEqual(p.returncode, 0, name + p.stderr)
            j = json.loads(p.stdout)
            self.schema(j)
            bad = {c["id"] for c in j["checks"] if c["status"] == "bad"}
            want = {"power-brake"} if "535.161.08" in name else {"heat", "power-brake"} if "183.01.out.0.valid" in name else set()
            self.assertEqual(bad, want, name)
            if want:
                ids = {f["id"] for f in j["findings"]}
                self.assertTrue(ids >= ({"thermal-throttle"} if "heat" in want else set()) | {"power-capped"}, ids)

    def test_fake_gpus(self):
        j = report(env=fake_gpus())
        self.schema(j)
        by_id = {c["id"]: c for c in j["checks"]}
        self.assertEqual(by_id["heat"]["status"], "bad")
        self.assertEqual(len(j["facts"]["gpus"]), 2)
        self.assertEqual(j["facts"]["gpus"][0]["memory_bytes"], 85899345920)
        self.assertIsNone(j["facts"]["gpus"][1]["power_mw"])  # not told is null, never 0
        self.assertIn("thermal-throttle", [f["id"] for f in j["findings"]])

    def test_every_check_is_in_the_documentation(self):
        with open(os.path.join(HERE, "..", "docs", "check.md"), encoding="utf-8") as f:
            words = set(f.read().replace(",", " ").replace("|", " ").split())
        for c in report()["checks"]:
            self.assertIn(c["id"], words)

    def test_text_and_json_together(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "r.json")
            p = run("--json", path, os.path.join(FIXTURES, "captures", "h200-q.txt"))
            self.assertEqual(p.returncode, 0)
            self.assertIn("From captures", p.stdout)
            with open(path) as f:
                self.schema(json.load(f))
            p = run("--json", path, "--quiet", os.path.join(FIXTURES, "captures", "h200-q.txt"))
            self.assertEqual(p.stdout, "")


class Load(unittest.TestCase):
    def test_load_wakes_the_link(self):
        j = report("--load", env=fake_gpus())
        self.assertEqual(j["facts"]["host"]["copy_load"], 1)

    def test_measure(self):
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "data.bin"), "wb") as f:
                f.write(os.urandom(1 << 20))
            start = time.time()
            j = report("--measure", "--data", d, env=fake_gpus(), timeout=120)
            self.assertLess(time.time() - start, 20 if os.environ.get("GPUWHY_SLOW") is None else 100)
        ids = {(m["id"], m["gpu"]) for m in j["facts"]["measurement"]}
        for want in (("h2d-pinned", 0), ("launch", 1), ("host-copy", None), ("disk-read", None)):
            self.assertIn(want, ids)
        by_id = {c["id"]: c for c in j["checks"]}
        self.assertEqual(by_id["memory-speed"]["status"], "good")
        self.assertIn("MB/s", by_id["data-speed"]["value"])
        self.assertEqual(j["facts"]["host"]["cuda_problem"], None)

    def test_measure_without_a_gpu(self):
        j = report("--measure", env=clean_env(LD_LIBRARY_PATH="/nowhere"))
        self.assertIn("host-copy", {m["id"] for m in j["facts"]["measurement"]})
        self.assertIn("libcuda", j["facts"]["host"]["cuda_problem"])


class Collect(unittest.TestCase):
    def test_elsewhere_it_says_the_same(self):
        env = fake_gpus()
        env.update({"HF_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "WANDB_API_KEY": "s3cret", "NCCL_DEBUG": "INFO", "NCCL_SECRET": "s3cret"})
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "machine.gz")
            here = report("--collect", path, env=env)
            text = gzip.open(path, "rt").read()
            self.assertNotIn("s3cret", text)
            self.assertNotIn("SECRET", text)
            self.assertIn("NCCL_DEBUG", text)
            there = report(path)
            self.assertFalse(there["source"]["live"])
            for a, b in zip(here["checks"], there["checks"]):
                self.assertEqual((a["id"], a["status"], a["value"]), (b["id"], b["status"], b["value"]))
            # half of it is salvaged, with its loss named
            half = os.path.join(d, "half")
            with open(half, "w") as f:
                f.write(text[:len(text) // 2])
            j = report(half)
            self.assertTrue(any("ends early" in n["text"] for n in j["note"]))
            with open(path, "rb") as f:
                packed = f.read()
            with open(half, "wb") as f:
                f.write(packed[:len(packed) // 2])
            self.assertIn(run(half).returncode, (0, 3))

    def test_where_it_cannot_write(self):
        p = run("--collect", "/nowhere/file")
        self.assertEqual(p.returncode, 4)
        self.assertIn("/nowhere/file", p.stderr)


class Usage(unittest.TestCase):
    def status(self, want, *args):
        p = run(*args)
        self.assertEqual(p.returncode, want, (args, p.stderr))
        if want in (2, 3):
            self.assertTrue(p.stderr.startswith("gpuwhy"), p.stderr)
        return p

    def test_statuses(self):
        self.status(2, "--no-such-option")
        self.status(2, "--fail-if", "maybe")
        self.status(2, "--load", "capture.txt")
        self.status(2, "")
        self.status(3, "/nowhere/capture.txt")
        with tempfile.TemporaryDirectory() as d:
            self.status(3, d)
            path = os.path.join(d, "notes.txt")
            with open(path, "w") as f:
                f.write("no capture in here\n")
            p = self.status(3, path)
            self.assertIn("nvidia-smi", p.stderr)

    def test_gate(self):
        brake = os.path.join(FIXTURES, "captures", "table.txt")  # an uncorrected memory error
        self.status(1, "--fail-if", "bad", brake)
        self.status(0, brake)
        fine = os.path.join(FIXTURES, "captures", "h200-q.txt")
        self.status(0, "--fail-if", "bad", fine)
        self.status(0, "--fail-if", "look", fine)

    def test_help_lists_the_formats(self):
        p = self.status(0, "--help")
        for word in ("nvidia-smi -q -x", "--measure", "--collect", "iostat"):
            self.assertIn(word, p.stdout)

    def test_hostile_text_is_shown_harmlessly(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "x.txt")
            with open(path, "w") as f:
                f.write("GPU 0: evil\x9b31m\u202ename (UUID: GPU-1)\n")
            p = self.status(0, path)
            self.assertNotIn("\x1b", p.stdout)
            self.assertNotIn("\x9b", p.stdout)
            self.assertNotIn("\u202e", p.stdout)

    def test_a_closed_pipe(self):
        p = subprocess.run(f"'{EXE}' check '{FIXTURES}/captures/h200-q.txt' | head -1; exit ${{PIPESTATUS[0]}}", shell=True,
                           executable="/bin/bash", capture_output=True, text=True, env=clean_env())
        self.assertEqual(p.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=1)
