#!/usr/bin/env python3
"""`gpuwhy read TRACE NCU.csv`: hardware counters of the kernels beside the timeline of the same job.

usage: ncu_test.py GPUWHY TRACES [DLRM8]

TRACES holds recorded jobs (tests/traces). What ncu prints is made up from the kernels of a recording, spelt as ncu spells
them, with counters that say what the test wants said. DLRM8: a folder with the ranks of one job, for the last test.
"""
import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from needs import NO_REPORTS, reads_reports

GPUWHY, TRACES = (os.path.abspath(p) for p in sys.argv[1:3])
DLRM8 = sys.argv[3] if len(sys.argv) > 3 else ""
OK, USAGE, INPUT = 0, 2, 3
CHAIN, FP32, HEALTHY = (os.path.join(TRACES, f + ".json.gz") for f in ("elementwise_chain", "fp32_matmul", "healthy_conv"))
METRICS = {"duration": ("gpu__time_duration.sum", "ns"),
           "sm": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
           "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%"),
           "tensor": ("sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active", "%"),
           "fp32": ("sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active", "%"),
           "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
           "waves": ("launch__waves_per_multiprocessor", "")}
BOUND = {"sm": 22, "dram": 89, "tensor": 0, "fp32": 6, "occupancy": 80, "waves": 20}
COMPUTES = {"sm": 91, "dram": 14, "tensor": 0, "fp32": 60, "occupancy": 75, "waves": 20}
TENSOR = {"sm": 80, "dram": 25, "tensor": 74, "fp32": 1, "occupancy": 12, "waves": 6}
SIMT = {"sm": 88, "dram": 9, "tensor": 0, "fp32": 85, "occupancy": 12, "waves": 6}
SMALL = {"sm": 12, "dram": 9, "tensor": 0, "fp32": 4, "occupancy": 9, "waves": 0.2}


def kernels(path):
    with gzip.open(path) as f:
        return sorted({e["name"] for e in json.load(f)["traceEvents"] if e.get("cat") == "kernel"})


def spelt(name):
    """As ncu writes it: types before numbers, blanks before pointers, lambdas in words, T1 for parameters."""
    cut, depth = len(name), 0
    for i, c in enumerate(name):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0 and not name.startswith("(anonymous namespace)", i):
            cut = i
            break
    head = name[:cut]
    head = head.replace("(anonymous namespace)", "<unnamed>")
    head = re.sub(r"\{lambda(\(.*?\))#(\d+)\}", r"[lambda\1 (instance \2)]", head)
    head = re.sub(r"(?<=[<,\s])(\d+)ul\b", r"(unsigned long)\1", head)
    head = re.sub(r"(?<=[<,])(\s?)(\d+)(?=[,>\s])", r"\1(int)\2", head)
    head = re.sub(r"(?<=\w)([*&])", r" \1", head).replace("> >", ">>")
    return head + ("(T1, T2)" if cut < len(name) else "")


def raw(rows, extra=""):
    """The raw page: a column a metric, a row of units."""
    out = io.StringIO()
    w = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    w.writerow(["ID", "Process ID", "Process Name", "Kernel Name", "Block Size", "Grid Size"] + [m for m, _ in METRICS.values()])
    w.writerow([""] * 6 + [u for _, u in METRICS.values()])
    for i, (name, values) in enumerate(rows):
        w.writerow([i, 77, "python", name, "(256, 1, 1)", "(4096, 1, 1)"] +
                   [f"{({'duration': 2000.0} | values)[k]:,.2f}" if k in values or k == "duration" else "n/a" for k in METRICS])
    return "==PROF== Connected to process 77\n" + extra + out.getvalue()


def details(rows):
    """The details page: a row a metric, by label; pipes are not on it."""
    labels = {"sm": "Compute (SM) Throughput", "dram": "DRAM Throughput", "occupancy": "Achieved Occupancy", "waves": "Waves Per SM"}
    out = io.StringIO()
    w = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    w.writerow(["ID", "Process ID", "Kernel Name", "Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    for i, (name, values) in enumerate(rows):
        w.writerow([i, 77, name, "GPU Speed Of Light Throughput", "Duration", "us", "2.00"])
        for k, label in labels.items():
            w.writerow([i, 77, name, "Section", label, METRICS[k][1], f"{values[k]:.2f}"])
    return out.getvalue()


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuwhy-ncu-")
        self.addCleanup(shutil.rmtree, self.dir)

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def run_read(self, *args):
        p = subprocess.run([GPUWHY, "read", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=300, env={**os.environ, "LC_ALL": "C.UTF-8"})
        p.out, p.err = p.stdout.decode(), p.stderr.decode()
        return p

    def report(self, *args, status=OK):
        p = self.run_read("--quiet", "--json", "-", *args)
        self.assertEqual(p.returncode, status, p.err)
        return json.loads(p.out)

    def finding(self, report, name):
        return next((f for f in report["findings"] if f["id"] == name), None)

    def says(self, finding, key, text):
        self.assertTrue(any(text in e["text"] for e in finding[key]), (text, finding[key]))


class TestJoined(Case):
    def test_bandwidth(self):
        """Names suggested it; counters prove it: one finding, high confidence, the kernels with their figures."""
        names = kernels(CHAIN)
        before = self.finding(self.report(CHAIN), "memory-bandwidth-bound")
        self.assertEqual(before["confidence"], "low")
        for order in (lambda a, b: (a, b)), (lambda a, b: (b, a)):
            r = self.report(*order(CHAIN, self.file("n.csv", raw([(spelt(n), BOUND) for n in names]))))
            self.assertEqual(r["verdict"]["finding"], "memory-bandwidth-bound")
            f = self.finding(r, "memory-bandwidth-bound")
            self.assertEqual(f["confidence"], "high")
            self.says(f, "evidence", "kernels whose limit is device memory: busy 89 % on average")
            self.assertTrue(any("DRAM 89 %" in w["text"] for w in f["where"]), f["where"])
            self.assertEqual([x["id"] for x in r["findings"]].count("memory-bandwidth-bound"), 1)
            c = r["kernel_counters"]
            self.assertEqual((c["weights"], c["names"]), ("timeline", len(set(map(spelt, names)))))
            self.assertGreater(c["covered"], 0.999)
            self.assertAlmostEqual(c["mean"]["dram"], 0.89, places=6)
            self.assertAlmostEqual(sum(k["share"] for k in c["kernels"]), 1, places=6)
            self.assertEqual({k["limit"] for k in c["kernels"]}, {"bandwidth"})
            self.assertLessEqual({k["match"] for k in c["kernels"]}, {"exact", "instance"})
            self.assertEqual([f["format"] for f in r["source"]["files"]], ["kineto", "ncu"])

    def test_denied(self):
        """What the names suggest, the counters may deny."""
        names = kernels(CHAIN)
        r = self.report(CHAIN, self.file("n.csv", raw([(spelt(n), COMPUTES) for n in names])))
        self.assertIsNone(self.finding(r, "memory-bandwidth-bound"))
        self.assertNotIn("memory-bandwidth-bound", [n["id"] for n in r["not_evaluated"]])
        r = self.report(FP32, self.file("t.csv", raw([(spelt(n), TENSOR) for n in kernels(FP32)])))
        self.assertIsNone(self.finding(r, "tensor-cores-idle"))

    def test_tensor(self):
        before = self.finding(self.report(FP32), "tensor-cores-idle")
        r = self.report(FP32, self.file("n.csv", raw([(spelt(n), SIMT) for n in kernels(FP32)])))
        f = self.finding(r, "tensor-cores-idle")
        self.assertEqual(r["verdict"]["finding"], "tensor-cores-idle")
        self.says(f, "evidence", "by counters the tensor pipe is busy 0 % of the time, and the fp32 pipe 85 %")
        self.says(f, "evidence", "large matrix kernels on the fp32 pipe")
        self.assertGreaterEqual(f["gain"]["likely"], before["gain"]["likely"] * 0.9)
        # memory that is half busy already leaves room for a factor of 0.9 / 0.45 = 2 at the same bytes
        r = self.report(FP32, self.file("m.csv", raw([(spelt(n), {**SIMT, "dram": 45}) for n in kernels(FP32)])))
        g = self.finding(r, "tensor-cores-idle")["gain"]
        self.assertLess(g["likely"], 2.05)
        self.assertLess(g["likely"], before["gain"]["likely"])

    def test_occupancy(self):
        r = self.report(HEALTHY, self.file("n.csv", raw([(spelt(n), SMALL) for n in kernels(HEALTHY)])))
        f = self.finding(r, "low-occupancy")
        self.assertIsNotNone(f)
        self.says(f, "evidence", "0.2 waves of blocks on average")
        self.says(f, "against", "larger launches")
        self.assertEqual({k["limit"] for k in r["kernel_counters"]["kernels"]}, {"grid"})

    def test_shapes(self):
        """The details page, several files, and a page that leaves template arguments out: the same verdict."""
        names = kernels(CHAIN)
        half = len(names) // 2
        a = self.file("a.csv", details([(spelt(n), BOUND) for n in names[:half]]))
        b = self.file("b.csv", raw([(spelt(n), BOUND) for n in names[half:]]))
        r = self.report(a, CHAIN, b)
        self.assertEqual(r["verdict"]["finding"], "memory-bandwidth-bound")
        self.assertEqual(len(r["source"]["files"]), 3)
        self.assertGreater(r["kernel_counters"]["covered"], 0.999)
        function = sorted({re.split(r"[<(]", spelt(n).replace("<unnamed>::", ""))[0].split("::")[-1].split(" ")[-1] for n in names})
        r = self.report(CHAIN, self.file("f.csv", raw([(n, BOUND) for n in function])))
        self.assertEqual(r["verdict"]["finding"], "memory-bandwidth-bound")
        self.assertIn("function", {k["match"] for k in r["kernel_counters"]["kernels"]})
        self.says(self.finding(r, "memory-bandwidth-bound"), "against", "without their template arguments")

    def test_part(self):
        """Counters of a few kernels do not decide on all of them."""
        r = self.report(CHAIN, self.file("n.csv", raw([(spelt(kernels(CHAIN)[0]), COMPUTES)])))
        self.assertLess(r["kernel_counters"]["covered"], 0.5)
        self.assertIn("low-occupancy", [n["id"] for n in r["not_evaluated"]])


class TestWords(Case):
    def test_strangers(self):
        n = self.file("n.csv", raw([("of_another_job", BOUND)]))
        p = self.run_read(CHAIN, n)
        self.assertEqual(p.returncode, INPUT)
        self.assertIn("n.csv: none of its kernels runs in the recording", p.err)
        self.assertIn("memory-bandwidth-bound", p.out)  # the trace is diagnosed all the same
        self.assertIn("They are not used", p.out)

    def test_refused(self):
        n = self.file("n.csv", "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
        p = self.run_read(CHAIN, n)
        self.assertEqual(p.returncode, INPUT)
        self.assertIn("NVreg_RestrictProfilingToAdminUsers=0", p.err)
        self.assertIn("memory-bandwidth-bound", p.out)

    def test_alone(self):
        n = self.file("n.csv", raw([("ampere_sgemm_128x64_nn", SIMT), ("elementwise_kernel", BOUND)]))
        for files in (n,), (n, self.file("m.csv", raw([("other", SMALL)]))):
            r = self.report(*files)
            self.assertIn("no timeline", r["verdict"]["sentence"])
            self.assertEqual(r["kernel_counters"]["weights"], "profiler")
            self.assertIsNone(r["kernel_counters"]["covered"])
            self.assertEqual(r["verdict"]["finding"], "tensor-cores-idle")
            self.assertIsNotNone(self.finding(r, "memory-bandwidth-bound"))
            self.assertEqual(r["devices"], [])
            self.assertNotIn("no-gpu", [x["id"] for x in r["trust"]["losses"]])

    @unittest.skipUnless(reads_reports(GPUWHY), NO_REPORTS)
    def test_read_back(self):
        r = self.report(self.file("n.csv", raw([("ampere_sgemm_128x64_nn", SIMT), ("elementwise_kernel", BOUND)])))
        again = self.report(self.file("r.json", json.dumps(r)))
        self.assertEqual(again["kernel_counters"], r["kernel_counters"])

    @unittest.skipUnless(reads_reports(GPUWHY), NO_REPORTS)
    def test_beside_a_report(self):
        saved = self.file("r.json", json.dumps(self.report(CHAIN)))
        p = self.run_read(saved, self.file("n.csv", raw([(spelt(n), BOUND) for n in kernels(CHAIN)])))
        self.assertEqual(p.returncode, USAGE)
        self.assertIn("go with a recording", p.err)

    def test_folder(self):
        """In a folder: Nsight Compute's files are found, other CSV files are left alone."""
        shutil.copy(CHAIN, self.dir)
        self.file("n.csv", raw([(spelt(n), BOUND) for n in kernels(CHAIN)]))
        self.file("loss.csv", "step,loss\n1,0.5\n")
        r = self.report(self.dir)
        self.assertGreater(r["kernel_counters"]["covered"], 0.999)

    @unittest.skipUnless(os.path.isdir(DLRM8), "no folder with the ranks of a job")
    def test_ranks(self):
        files = sorted(os.path.join(DLRM8, f) for f in os.listdir(DLRM8) if ".json" in f)
        names = kernels(files[0]) if files[0].endswith(".gz") else sorted(
            {e["name"] for e in json.load(open(files[0]))["traceEvents"] if e.get("cat", "").lower() == "kernel"})
        r = self.report(DLRM8, self.file("n.csv", raw([(spelt(n), BOUND) for n in names])))
        self.assertEqual(r["source"]["ranks"], len(files))
        self.assertEqual([f["format"] for f in r["source"]["files"]].count("ncu"), 1)
        self.assertGreater(r["kernel_counters"]["covered"], 0.9)
        self.assertIn(f"{len(files)} ranks", json.dumps(r["findings"]) + r["verdict"]["sentence"])


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    unittest.main(verbosity=1)
