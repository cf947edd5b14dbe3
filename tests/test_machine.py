#!/usr/bin/env python3
"""The machine of a recording: what `gpuwhy run` collects about it, and what `read` and `check` make of that.

usage: test_machine.py BUILD_DIR TRACE [NAME...]
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import runner

BUILD, TRACE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
GPUWHY = os.path.join(BUILD, "gpuwhy")
FAKES = os.path.join(BUILD, "fakes")
JOB = os.path.join(FAKES, "fake_job")
HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "fixtures", "check", "two_socket.nvml")


class Run:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gwmachine-")
        self.rec = os.path.join(self.dir, "rec")

    def env(self, **extra):
        e = {k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "NCCL_", "TORCH", "OMP_", "PYTHON"))}
        e.update(ASAN_OPTIONS="detect_leaks=0:handle_segv=0:handle_abort=0", LD_LIBRARY_PATH=FAKES,
                 FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"), GPUWHY_FAKE_NVML=SCRIPT,
                 GPUWHY_NVML=os.path.join(BUILD, "check_fakes", "libnvidia-ml.so.1"))
        e.update(extra)
        return e

    def run(self, job, *options, **extra):
        self.p = subprocess.run([GPUWHY, "run", "-o", self.rec, "--no-report", *options, "--", *[str(x) for x in job]], cwd=self.dir,
                                env=self.env(**extra), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        return self

    def read(self, *args):
        p = subprocess.run([GPUWHY, "read", "-q", "--json", "-", *(args or [self.rec])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert p.returncode == 0, p.stderr
        self.report = json.loads(p.stdout)
        self.findings = {f["id"]: f for f in self.report["findings"]}
        self.open = {n["id"] for n in self.report["not_evaluated"]}
        return self

    def check(self):
        p = subprocess.run([GPUWHY, "check", "-q", "--json", "-", self.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert p.returncode == 0, p.stderr
        return json.loads(p.stdout)

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def case_findings_of_the_machine():
    """Links under load, memory errors: from the facts of the start and the recorder's samples, for the GPU that the job used."""
    r = Run().run([JOB, "steps", 20000], "--full")
    assert r.p.returncode == 0 and r.p.stderr == b"", r.p.stderr
    r.read()
    pcie = r.findings["pcie-degraded"]
    assert any("gen 5 x8 under load" in e["text"] for e in pcie["evidence"]), pcie
    copies = next(e["value"] for e in pcie["evidence"] if e["source"] == "timeline")
    steady = next(d for d in r.report["devices"] if d["main"])["steady"]
    assert abs(copies - steady["copy_exposed_ns"] / steady["wall_ns"]) < 1e-6
    # half of the lanes: at most half of the exposed copies can go
    assert pcie["gain"]["low"] == 1 and abs(pcie["gain"]["high"] - 1 / (1 - copies / 2)) < 0.002, pcie["gain"]
    assert r.findings["ecc"]["gain"]["likely"] is None and r.findings["ecc"]["confidence"] == "high"
    # GPU 1 has MIG on and persistence off, but the job is not on it
    assert "mig" not in r.findings and "persistence-off" not in r.findings, list(r.findings)
    assert not r.open & {"pcie-degraded", "ecc", "mig", "persistence-off", "shm-small", "memlock", "debug-mode"}, r.open
    # one GPU: no talk between GPUs, and no question about it
    assert "poor-topology" not in r.findings and "poor-topology" not in r.open
    ranks = [f["rank"] for f in r.report["findings"]]
    assert ranks == list(range(1, len(ranks) + 1))
    by_id = {c["id"]: c for c in r.check()["checks"]}
    assert by_id["pcie"]["status"] == "bad" and by_id["mig"]["status"] == "look", by_id["pcie"]
    return r


def case_the_jobs_own_variables():
    """What the job's environment says, not ours; nothing outside the list, and not our own library."""
    r = Run().run([JOB, "steps", 2000], "--full", CUDA_LAUNCH_BLOCKING="1", MY_SECRET_TOKEN="hunter2", NCCL_SECRET="hunter3")
    data = b""
    for name in os.listdir(r.rec):
        with open(os.path.join(r.rec, name), "rb") as f:
            data += f.read()
    assert b"hunter" not in data
    r.read()
    seen = r.findings["debug-mode"]["evidence"]
    assert any("CUDA_LAUNCH_BLOCKING=1" in e["text"] for e in seen), seen
    variables = {v["name"]: v["value"] for v in r.check()["facts"]["variable"]}
    assert variables == {"CUDA_LAUNCH_BLOCKING": "1"}, variables
    return r


def case_no_gpu_no_cuda():
    """Also where nothing is known about GPUs: the machine is judged, the verdict says so when something is broken."""
    r = Run().run([sys.executable, "-c", "import time; time.sleep(1)"], GPUWHY_NVML="/nonexistent", PYTHONDEVMODE="1")
    r.read()
    assert r.findings["debug-mode"]["confidence"] == "high"
    assert "debug-mode" in r.report["verdict"]["sentence"], r.report["verdict"]
    assert not r.open & {"shm-small", "memlock", "debug-mode"} and "pcie-degraded" in r.open, r.open
    return r


def case_shorter_than_the_look():
    """A job of no length still gets its facts, and waits little for them."""
    start = time.time()
    r = Run().run(["true"])
    assert time.time() - start < 4 and r.p.returncode == 0
    assert r.check()["summary"]["good"] > 5
    return r


def case_python_of_the_job():
    """The environment of the interpreter that the job names, also through its script's first line."""
    r = Run()
    site = os.path.join(r.dir, "venv", "lib", "python3.11", "site-packages", "torch")
    os.makedirs(site)
    os.makedirs(os.path.join(r.dir, "venv", "bin"))
    with open(os.path.join(site, "version.py"), "w") as f:
        f.write("__version__ = '2.99.1+cu130'\ncuda = '13.0'\n")
    open(os.path.join(r.dir, "venv", "pyvenv.cfg"), "w").close()
    python = os.path.join(r.dir, "venv", "bin", "python3")
    os.symlink(sys.executable, python)
    script = os.path.join(r.dir, "launcher")
    with open(script, "w") as f:
        f.write("#!%s\nimport time; time.sleep(0.5)\n" % python)
    os.chmod(script, 0o755)
    r.run([script])
    versions = {s["name"]: s["version"] for s in r.check()["facts"]["software"]}
    assert versions.get("torch") == "2.99.1+cu130", versions
    return r


def case_damaged_facts():
    """A torn or foreign machine file costs its facts, not the report."""
    r = Run().run([JOB, "steps", 3000], "--full")
    path = os.path.join(r.rec, "machine.gwr")
    with open(path, "r+b") as f:
        f.truncate(os.path.getsize(path) // 2)
    r.read()
    assert r.report["devices"], r.report["verdict"]
    with open(path, "wb") as f:
        f.write(os.urandom(5000))
    r.read()
    assert r.report["devices"]
    os.unlink(path)
    r.read()
    assert r.report["devices"] and "memlock" in r.open
    return r


def case_as_nobody():
    """An ordinary user without rights on the machine: everything is there, and nothing is said to be missing but NVML."""
    r = Run()
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return r # who is not root is that user already, in every other case
    os.chmod(r.dir, 0o777)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    env = r.env(GPUWHY_NVML="/nonexistent/libnvidia-ml.so.1", HOME="/nonexistent")
    code = "import time\nfor i in range(3): time.sleep(0.5)"
    p = subprocess.run(user + [GPUWHY, "run", "-o", r.rec, "--no-report", "--", sys.executable, "-c", code], cwd=r.dir, env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    if b"cannot be started" in p.stderr or b"failed to execute" in p.stderr:
        return r # the build folder is not open to others
    assert p.returncode == 0 and p.stderr == b"", p.stderr
    notes = r.read().report["trust"]["notes"]
    assert any(n.startswith("utilization, clocks, memory, power and heat of the GPUs are not known: libnvidia-ml.so.1 is not there. To have it: ")
               for n in notes), notes
    assert not any("file and line" in n or "waits for files" in n or "bytes that processes" in n for n in notes), notes
    assert r.check()["summary"]["good"] > 5
    return r


def case_a_job_that_shuts_us_out():
    """Without ptrace rights on the job: each thing that is lost has its sentence, and the rest is there."""
    r = Run()
    if os.getuid() != 0 or not shutil.which("setpriv"):
        return r
    os.chmod(r.dir, 0o777)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    code = "import ctypes, time\nctypes.CDLL(None).prctl(4, 0)\nfor i in range(6): time.sleep(0.5)" # PR_SET_DUMPABLE
    p = subprocess.run(user + [GPUWHY, "run", "-o", r.rec, "--no-report", "--no-hook", "--", sys.executable, "-c", code], cwd=r.dir,
                       env=r.env(HOME="/nonexistent"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    if b"cannot be started" in p.stderr or b"failed to execute" in p.stderr:
        return r
    assert p.returncode == 0 and p.stderr == b"", p.stderr
    notes = " | ".join(r.read().report["trust"]["notes"])
    for lost, why in (("causes are told without the file and line of the Python code: process ", "To have it: run gpuwhy as the user of the job"),
                      ("waits for files, pipes and locks are told apart by the kernel's function alone, or not at all: /proc/PID/task/TID/syscall is not readable", ""),
                      ("bytes that processes read and write are not known: /proc/PID/io is not readable", "some containers hide /proc/PID/io")):
        assert lost in notes and why in notes, (lost, notes)
    return r


def case_the_recorder_is_killed():
    """kill -9 of the recorder while the machine is looked at: the job goes on, and nothing of ours stays behind."""
    r = Run()
    p = subprocess.Popen([GPUWHY, "run", "-o", r.rec, "--no-report", "--", sys.executable, "-c", "import time; time.sleep(2); print('alive', flush=True)"],
                         env=r.env(), cwd=r.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    while not os.path.exists(os.path.join(r.rec, "record.gwr")):
        time.sleep(0.005)
    time.sleep(0.1)
    p.kill()
    assert p.stdout.read() == b"alive\n"
    p.wait()
    time.sleep(0.5)
    left = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                if r.rec.encode() in f.read():
                    left.append(pid)
        except OSError:
            pass
    assert not left, left
    r.read() # and what was written can be read
    return r


def case_a_trace_with_its_machine():
    """--machine: a saved check beside a trace of another tool, and what is measured there."""
    r = Run()
    saved = os.path.join(r.dir, "node.gz")
    env = r.env(LD_LIBRARY_PATH=os.path.join(BUILD, "check_fakes"))
    p = subprocess.run([GPUWHY, "check", "-q", "--collect", saved], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert p.returncode == 0, p.stderr
    r.read(TRACE)
    assert "ecc" in r.open and "ecc" not in r.findings
    before = r.report["verdict"]
    r.read("--machine", saved, TRACE)
    assert "ecc" in r.findings and "persistence-off" in r.findings and not r.open & {"ecc", "persistence-off"}
    assert r.report["verdict"] == before # the job's own bottleneck stays first
    p = subprocess.run([GPUWHY, "read", "--machine", os.path.join(r.dir, "nothing"), TRACE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert p.returncode == 3 and p.stderr.count(b"\n") == 1, (p.returncode, p.stderr)
    return r


def case_measured_ceilings():
    """The best rate of the host link, where it was measured, is what copies are compared with."""
    r = Run()
    trace = os.path.join(HERE, "traces", "pageable_big.json.gz")
    saved = os.path.join(r.dir, "node.txt")
    with open(saved, "w") as f:
        f.write("#gpuwhy-check 1\ngpu index=0 name=X\nmeasurement id=h2d-pinned unit=bytes/s how=test gpu=0 value=11000000000.0\nend\n")
    slow = r.read("--machine", saved, trace).findings["pageable-copy"]
    usual = r.read(trace).findings["pageable-copy"]
    assert any("measured from pinned memory" in e["text"] for e in slow["evidence"] + slow["against"]), slow["evidence"]
    assert slow["gain"]["likely"] < usual["gain"]["likely"], (slow["gain"], usual["gain"])
    return r


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals(), sys.argv[3:])))
