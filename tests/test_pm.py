#!/usr/bin/env python3
"""The GPUs' hardware counters in `gpuwhy run`, with a fake driver and CUPTI that check every call: whatever happens in the sampling
process, the job and the recorder must not notice, and what was written stays readable.

usage: test_pm.py BUILD_DIR [NAME...]
"""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import runner

BUILD = os.path.abspath(sys.argv[1])
GPUWHY = os.path.join(BUILD, "gpuwhy")
FAKES = os.path.join(BUILD, "fakes")
JOB = os.path.join(FAKES, "fake_job")
DUMP = os.path.join(FAKES, "record_dump")
LENGTH = ["steps", "200", "sleep", "5000", "steps", "200"]


class Run:
    def __init__(self, *options, job=None, report=False, **env):
        self.dir = tempfile.mkdtemp(prefix="gwpm-")
        self.rec = os.path.join(self.dir, "rec")
        self.errors = os.path.join(self.dir, "errors")
        os.mkdir(os.path.join(self.dir, "dev"))
        self.env = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:handle_segv=0:handle_abort=0:disable_coredump=1", LD_LIBRARY_PATH=FAKES,
                        FAKE_LOG=self.errors, FAKE_PM_ERRORS=self.errors, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"),
                        GPUWHY_NVML=os.path.join(FAKES, "libnvidia-ml.so.1"), FAKE_NVML_CHILDREN="1",
                        FAKE_UVM=os.path.join(self.dir, "dev", "nvidia-uvm"))
        self.env.pop("CUDA_INJECTION64_PATH", None)
        self.env.update(env)
        self.p = subprocess.Popen([GPUWHY, "run", "-o", self.rec] + ([] if report else ["--no-report"]) + list(options) + ["--"] +
                                  (job or [JOB] + LENGTH), cwd=self.dir, env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)

    def helper(self):
        """Pid of the sampling process, None when there is none."""
        try:
            with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children", encoding="ascii") as f:
                for pid in f.read().split():
                    with open(f"/proc/{pid}/comm", encoding="ascii") as c:
                        if c.read().strip() == "gpuwhy-pm":
                            return int(pid)
        except OSError:
            pass
        return None

    def wait_sampling(self):
        path = os.path.join(self.rec, "pm.gwr")
        until = time.time() + 20
        while time.time() < until:
            if os.path.exists(path) and "state=running" in self.dump():
                return self.helper()
            time.sleep(0.05)
        raise AssertionError("it never sampled")

    def end(self, ok=True):
        self.out, self.err = self.p.communicate(timeout=60)
        assert not os.path.exists(self.errors), open(self.errors, encoding="utf-8").read()
        if ok:
            assert self.p.returncode == 0 and self.out.startswith("launched "), (self.p.returncode, self.out, self.err)
        return self

    def dump(self, name="pm.gwr"):
        path = os.path.join(self.rec, name)
        if not os.path.exists(path):
            return ""
        return subprocess.run([DUMP, "-v", path], stdout=subprocess.PIPE, universal_newlines=True, errors="replace", check=False).stdout

    def states(self):
        return re.findall(r"^pm device=(-?\d+) state=(\S+) result=(-?\d+)", self.dump(), re.M)

    def stretches(self):
        return [tuple(float(x) for x in m) for m in
                re.findall(r"^activity device=(\d+) start=(\d+) ns=(\d+) samples=(\d+) engine=(\S+) sm=(\S+)", self.dump(), re.M)]

    def facts(self):
        return dict(re.findall(r"^(pm\.\w+)=(.*)$", self.dump("record.gwr"), re.M))

    def report(self):
        p = subprocess.run([GPUWHY, "read", "--json", "-", self.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return p.returncode, json.loads(p.stdout.decode()) if p.stdout else None

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


# --- the cases -----------------------------------------------------------------------------------------------------------------


def case_samples(r=None):
    r = Run(report=True)
    try:
        helper = r.wait_sampling()
        assert helper
        r.end()
        assert not is_alive(helper)
        runs = r.stretches()
        assert runs and all(a[1] + a[2] <= b[1] + 1000 for a, b in zip(runs, runs[1:])), "order"
        ns = sum(x[2] for x in runs)
        engine, sm = (sum(x[2] * x[k] for x in runs) / ns for k in (4, 5))
        assert 36 < engine < 44 and 32 < sm < 40, (engine, sm)
        assert ns > 2.5e9 and max(x[2] for x in runs) <= 1e9
        assert abs(runs[-1][1] + runs[-1][2] - time.time() * 1e9) < 20e9, "stamps are wall-clock time"
        assert [s[1] for s in r.states()] == ["starting", "running", "ended", "ended"], r.states()
        assert "ended=1" in r.dump() and r.facts()["pm.state"] == "ended"
        # the sampling process is not one of the programs on the GPU
        assert f"pid={helper} " not in "\n".join(x for x in r.dump("record.gwr").splitlines() if x.startswith("counter"))
        status, report = r.report()
        a = report["activity"][0]
        assert 0.55 < a["idle"] < 0.65 and a["swing"]["period_ns"] and abs(a["swing"]["period_ns"] - 100e6) < 5e6, a
        assert "Whole run" in r.err, r.err
        damaged(r)
    finally:
        r.close()


def damaged(r):
    """Whatever happens to the file: a report, or a clear error; never a crash."""
    path = os.path.join(r.rec, "pm.gwr")
    with open(path, "rb") as f:
        good = f.read()
    rng = random.Random(1)
    for i in range(40):
        bad = bytearray(good)
        if i % 2:
            bad = bad[:rng.randrange(len(bad))]
        for _ in range(rng.randrange(1, 20) if bad else 0):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        with open(path, "wb") as f:
            f.write(bad)
        status, report = r.report()
        assert status in (0, 1, 2, 3) and report and report["schema"], (i, status)
    with open(path, "wb") as f:
        f.write(good)


def refusal(call, code, state, words):
    r = Run(FAKE_PM_REFUSE=f"{call}:{code}")
    try:
        r.end()
        assert state in [s[1] for s in r.states()], r.states()
        assert r.facts()["pm.state"] == state and words in r.err and r.err.count("no hardware counters") == 1, (r.facts(), r.err)
        status, report = r.report()
        assert not report["activity"] or report["activity"][0]["measured_ns"] == 0
    finally:
        r.close()


def case_refused_busy():
    refusal("cuptiPmSamplingEnable", 26, "busy", "another tool holds")


def case_refused_privilege():
    refusal("cuptiPmSamplingGetCounterAvailability", 35, "no-privilege", "NVreg_RestrictProfilingToAdminUsers=0")


def case_refused_later():
    """A decoder that begins to fail: a few restarts, then the reason; what was sampled stays."""
    r = Run(FAKE_PM_REFUSE="cuptiPmSamplingDecodeData:999:20")
    try:
        r.end()
        assert r.states()[-2][1] == "failed" and r.states()[-2][2] == "999", r.states()
        assert r.stretches()
    finally:
        r.close()


def case_no_driver():
    r = Run(FAKE_CUDA_FAILS="1", GPUWHY_LIBCUDA=os.path.join(BUILD, "pm_fakes", "libcuda.so.1"))
    try:
        r.end()
        assert r.facts()["pm.state"] == "no-cuda" and "driver library" in r.err, r.err
    finally:
        r.close()


def case_crash():
    r = Run(FAKE_PM_CRASH="cuptiPmSamplingDecodeData:20")
    try:
        r.end()
        assert r.facts()["pm.state"] == "died" and "ended unexpectedly" in r.err, (r.facts(), r.err)
        assert r.stretches() and "ended=0" in r.dump()
        assert not glob.glob(os.path.join(r.dir, "core*"))
    finally:
        r.close()


def case_hang():
    r = Run("--for", "4s", FAKE_PM_HANG="cuptiPmSamplingDecodeData:20")
    try:
        helper = r.wait_sampling()
        r.end()
        assert not is_alive(helper) and r.facts()["pm.state"] == "died", r.facts()
        status, report = r.report()
        assert report["activity"][0]["measured_ns"] > 0
    finally:
        r.close()


def case_killed_helper():
    r = Run()
    try:
        os.kill(r.wait_sampling(), signal.SIGKILL)
        r.end()
        assert r.facts()["pm.state"] == "died", r.facts()
    finally:
        r.close()


def case_killed_recorder():
    r = Run()
    try:
        helper = r.wait_sampling()
        time.sleep(1.5)
        r.p.kill()
        r.p.wait()
        until = time.time() + 5
        while is_alive(helper) and time.time() < until:
            time.sleep(0.05)
        assert not is_alive(helper), "it outlives the recorder"
        assert r.stretches() and "ended=0" in r.dump()
        status, report = r.report()
        assert report["activity"][0]["measured_ns"] > 5e8, report["activity"]
    finally:
        r.close()


def case_overflow():
    r = Run(FAKE_PM_OVERFLOW="40", FAKE_PM_WAVE="4:6") # a wave that is not in step with our looks
    try:
        r.end()
        assert int(re.findall(r"overflows=(\d+)", r.dump())[-2]) > 3
        runs = r.stretches()
        ns = sum(x[2] for x in runs)
        assert 34 < sum(x[2] * x[4] for x in runs) / ns < 46, "long samples count"
        assert sum(x[2] for x in runs) < 0.8 * (runs[-1][1] + runs[-1][2] - runs[0][1]), "what was lost counts as measured"
        status, report = r.report()
        assert report["activity"][0]["measured_ns"] < 0.8 * report["activity"][0]["span_ns"]
    finally:
        r.close()


def case_dear():
    """Samples that cost 200 us of CPU: fewer metrics, then longer intervals, until sampling is cheap."""
    r = Run(job=[JOB, "steps", "200", "sleep", "14000", "steps", "200"], FAKE_PM_SLOW="200")
    try:
        r.end()
        steps = [(int(m, 16), float(x)) for x, m in re.findall(r"state=running .*interval_us=(\d+) metrics=(0x\w+)", r.dump())]
        assert steps[0] == (3, 1000) and steps[1] == (1, 1000), steps
        assert len(steps) < 3 or [x for _, x in steps] == sorted(x for _, x in steps) and steps[2] == (1, 2000), steps
        counts = [int(x) for x in re.findall(r"samples=(\d+) overflows", r.dump())]
        assert counts == sorted(counts[:-1]) + [0], counts # the last line is of no GPU
    finally:
        r.close()


def case_few_metrics():
    r = Run(FAKE_PM_FIT="1")
    try:
        r.end()
        assert "metrics=0x1" in r.dump() and "sm=-1.00" in r.dump()
        status, report = r.report()
        assert report["activity"][0]["sm"] is None and report["activity"][0]["idle"] is not None
    finally:
        r.close()


def case_other_clock():
    r = Run(FAKE_PM_CLOCK="100000")
    try:
        r.end()
        last = r.stretches()[-1]
        assert abs(last[1] + last[2] - time.time() * 1e9) < 20e9, "stamps of another clock"
    finally:
        r.close()


def case_container():
    """The driver's process numbers are others': the only GPU that the job can see is taken."""
    r = Run(FAKE_NVML_CHILDREN="")
    try:
        r.end()
        assert r.stretches()
    finally:
        r.close()


def case_switched_off():
    r = Run("--no-pm")
    try:
        time.sleep(2)
        assert r.helper() is None
        r.end()
        assert not r.dump() and "pm.state" not in r.facts()
    finally:
        r.close()


def case_without_cuda():
    r = Run(job=[sys.executable, "-c", "import time; time.sleep(3); print('launched 0')"])
    try:
        time.sleep(2)
        helper = r.helper()
        with open(f"/proc/{helper}/maps", encoding="ascii", errors="replace") as f:
            assert "libcupti" not in f.read()
        r.end()
        assert not r.dump() and not r.facts() and not is_alive(helper), r.facts()
    finally:
        r.close()


if __name__ == "__main__":
    if not os.path.exists(DUMP) or not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        print("needs the fakes, and a kernel that lists children")
        sys.exit(77)
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:]), threads=3)) # they mostly sleep
