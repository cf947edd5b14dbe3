#!/usr/bin/env python3
"""`gpuwhy run` with real processes: the job must not notice, and the record must hold what happened.

usage: test_run.py BUILD_DIR [NAME...]
"""
import glob
import os
import pty
import re
import resource
import select
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
PY = sys.executable


class Run:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="gwtest-")
        self.rec = os.path.join(self.dir, "rec")
        self.log = os.path.join(self.dir, "breaches")

    def env(self, **extra):
        e = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:handle_segv=0:handle_abort=0", LD_LIBRARY_PATH=FAKES, FAKE_LOG=self.log, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"),
                 GPUWHY_NVML=os.path.join(FAKES, "libnvidia-ml.so.1"))
        e.pop("CUDA_INJECTION64_PATH", None)
        e.update(extra)
        return e

    def command(self, *options, report=False):
        return [GPUWHY, "run", "-o", self.rec] + ([] if report else ["--no-report"]) + list(options) + ["--"]

    def start(self, job, *options, report=False, env=None, **kw):
        return subprocess.Popen(self.command(*options, report=report) + [str(x) for x in job], cwd=self.dir,
                                env=self.env(**(env or {})), stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kw)

    def run(self, job, *options, data=None, **kw):
        p = self.start(job, *options, stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL, **kw)
        self.out, self.err = p.communicate(data, timeout=120)
        self.status = p.returncode
        return self

    def dump(self, path=None):
        text = subprocess.run([DUMP, "-v", path or os.path.join(self.rec, "record.gwr")], stdout=subprocess.PIPE,
                              universal_newlines=True, check=True).stdout
        self.text = text
        self.names = {int(i): n for i, n in re.findall(r"^name space=4 id=(\d+) (.*)$", text, re.M)}
        return {k: v for k, v in re.findall(r"(\w+)=(\S+)", text.strip().splitlines()[-1])}

    def counters(self, name):
        ids = [i for i, n in self.names.items() if n == name]
        return [float(v) for i, v in re.findall(r"^counter name=(\d+) .*value=(\S+)$", self.text, re.M) if int(i) in ids]

    def cuda(self):
        return sorted(glob.glob(os.path.join(self.rec, "cuda-*.gwr")))

    def clean(self):
        if os.path.exists(self.log):
            with open(self.log) as f:
                raise AssertionError("breaches: " + f.read())

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


# --- the job must not notice -------------------------------------------------------------------------------------


def case_exit_status():
    for job, want in ((["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42), (["sh", "-c", "kill -9 $$"], -9),
                      (["sh", "-c", "kill -TERM $$"], -15), (["sh", "-c", "kill -SEGV $$"], -11)):
        r = Run().run(job)
        assert r.status == want, (job, r.status, r.err)
        r.close()


def case_own_failures():
    r = Run().run(["/nonexistent/program"])
    assert r.status == 127 and b"cannot be started" in r.err, (r.status, r.err)
    r.close()
    r = Run()
    plain = os.path.join(r.dir, "plain")
    open(plain, "w").close()
    r.run([plain])
    assert r.status == 126, (r.status, r.err)
    r.close()
    for args in (["run"], ["run", "--for", "soon", "true"], ["run", "--nonsense", "true"], ["run", "--windows", "1s", "true"],
                 ["run", "-o", "/proc/nonexistent/x", "true"], ["run", "--kinds", "copies", "true"]):
        p = subprocess.run([GPUWHY] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/tmp")
        assert p.returncode == 125, (args, p.returncode, p.stderr)


def case_streams_untouched():
    data = os.urandom(300000)
    r = Run().run(["cat"], data=data)
    assert r.out == data and r.err == b"", (len(r.out), r.err[:200])
    r.close()
    r = Run().run(["sh", "-c", "echo out; echo err >&2; pwd; echo $0 $1; umask; ulimit -n", "a b", "c"])
    plain = subprocess.run(["sh", "-c", "echo out; echo err >&2; pwd; echo $0 $1; umask; ulimit -n", "a b", "c"], cwd=r.dir,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.out == plain.stdout and r.err == plain.stderr, (r.out, r.err)
    r.close()


def case_descriptors_and_mask():
    """The job has the same open descriptors, blocked and ignored signals as without us."""
    code = "import os,re; print(sorted(os.listdir('/proc/self/fd'))[:-1] if 0 else len(os.listdir('/proc/self/fd')));" \
           "print(re.findall(r'Sig(?:Blk|Ign).*', open('/proc/self/status').read()))"
    r = Run().run([PY, "-c", code], "--no-hook")
    plain = subprocess.run([PY, "-c", code], cwd=r.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.out == plain.stdout, (r.out, plain.stdout)
    r.close()


def case_options_belong_to_the_job():
    r = Run()
    p = subprocess.run([GPUWHY, "run", "-o", r.rec, "--no-report", "sh", "-c", "echo $1", "x", "--full"], stdout=subprocess.PIPE, cwd=r.dir)
    assert p.stdout == b"--full\n", p.stdout
    r.close()


def case_signals_are_passed_on():
    r = Run()
    p = r.start([JOB, "traps", "steps", 100000], "--full")
    assert p.stdout.readline() == b"ready\n"
    for _ in range(5):
        p.send_signal(signal.SIGUSR1)
        time.sleep(0.1)
    p.send_signal(signal.SIGINT)  # from another process: meant for the job
    time.sleep(0.2)
    p.send_signal(signal.SIGTERM)
    out, _ = p.communicate(timeout=30)
    assert p.returncode == 7, p.returncode
    assert out.count(b"signal 10") == 5 and b"signal 2\n" in out and b"signal 15" in out, out
    r.clean()
    r.close()


def on_terminal(argv, env, cwd, keys, timeout=40):
    """Runs argv as the foreground job of a new terminal. keys: (wait for this output, send that). (output, status)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execvpe(argv[0], argv, env)
    out, end, keys = b"", time.time() + timeout, list(keys)
    while time.time() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                got = os.read(fd, 65536)
            except OSError:
                break
            if not got:
                break
            out += got
        if keys and keys[0][0] in out:
            time.sleep(0.3)
            os.write(fd, keys.pop(0)[1])
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise AssertionError(f"did not end: {out!r}")
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return out, status


def case_ctrl_c_ends_the_recording_only():
    """On a terminal the first Ctrl-C ends the recording; the job goes on to its own end."""
    r = Run()
    out, status = on_terminal(r.command() + [JOB, "traps", "steps", "4000"], r.env(), r.dir, [(b"ready", b"\x03")])
    assert b"the recording has ended; the job goes on" in out, out
    assert b"signal 2" not in out and b"launched 40000" in out, out
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, status
    assert r.dump()["ended"] == "1"
    r.clean()
    r.close()


def case_second_ctrl_c_reaches_the_job():
    r = Run()
    out, status = on_terminal(r.command() + [JOB, "traps", "steps", "9000"], r.env(), r.dir,
                              [(b"ready", b"\x03"), (b"job goes on", b"\x03")])
    assert b"signal 2" in out and b"launched 90000" in out, out
    r.close()


def case_job_reads_the_terminal():
    """A job that reads from the terminal gets it, as without us."""
    r = Run()
    code = "x = input('name? '); print('hello', x)"
    out, status = on_terminal(r.command("--no-hook") + [PY, "-c", code], r.env(), r.dir, [(b"name?", b"world\n")])
    assert b"hello world" in out, out
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
    r.close()


def case_interrupt_without_terminal_group():
    """python -c with KeyboardInterrupt: status and traceback are the job's own."""
    r = Run()
    code = "import time; print('up', flush=True); time.sleep(30)"
    p = r.start([PY, "-c", code], "--no-hook")
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=20)
    assert p.returncode == -2 and b"KeyboardInterrupt" in err, (p.returncode, err)
    r.close()


# --- what users do -----------------------------------------------------------------------------------------------------------


def case_a_typo_leaves_nothing_behind():
    """So that the same -o can be used when the command is right."""
    r = Run().run(["/nonexistent/program"])
    assert r.status == 127 and b"write the command as you would type it" in r.err and not os.path.exists(r.rec), r.err
    os.mkdir(r.rec)
    open(os.path.join(r.rec, "mine"), "w").close()
    r.run(["/nonexistent/program"])
    assert r.status == 127 and os.listdir(r.rec) == ["mine"], os.listdir(r.rec)
    r.run(["true"])
    assert r.status == 0 and os.path.exists(os.path.join(r.rec, "record.gwr")), r.err
    before = sorted(os.listdir(r.rec))
    r.run(["/nonexistent/program"])  # a record that is there stays
    assert r.status == 125 and sorted(os.listdir(r.rec)) == before, r.err
    r.close()


def case_a_path_to_be_typed():
    r = Run()
    r.rec = os.path.join(r.dir, "it's a \u00fc")
    r.run(["true"], report=True)
    typed = r.err.decode().strip().splitlines()[-1].split("with: ", 1)[1]
    again = subprocess.run(["sh", "-c", typed.replace("gpuwhy", GPUWHY, 1)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert again.returncode == 0, (typed, again.stderr)
    r.close()


def case_limits_are_named():
    for limit, words in (("ulimit -n 5", b"ulimit -n"), ("ulimit -n 8", b"ulimit -n"), ("ulimit -f 8", b"ulimit -f")):
        r = Run()
        p = subprocess.run(["sh", "-c", limit + ' && exec "$@"', "sh"] + r.command() + ["true"], env=r.env(), cwd=r.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert p.returncode in (125, 126, 127) and not os.path.exists(r.rec), (limit, p.returncode, p.stderr)
        if b"error while loading shared libraries" not in p.stderr:  # it has more of them in some builds
            assert words in p.stderr, (limit, p.stderr)
        r.close()


def case_the_limit_on_files_is_kept():
    """SIGXFSZ would end the recorder, and with it the job's status: with GPU records, and with the samples of many threads."""
    threads = "import threading, time\nfor _ in range(1200): threading.Thread(target=time.sleep, args=(5,)).start()\nprint('launched 25000')"
    for job in ([JOB, "steps", 2500], [PY, "-c", threads]):
        r = Run()
        soft = 70 << 10
        p = r.start(job, "--full", "--no-hook", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, soft)))
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0 and out == b"launched 25000\n", (p.returncode, out, err)
        assert all(os.path.getsize(os.path.join(r.rec, f)) <= soft for f in os.listdir(r.rec))
        if r.cuda():
            assert r.dump(r.cuda()[0])["state"] == "size-limit", r.text[-300:]
        else:
            assert b"the record could not be written" in err, err
        again = subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert again.returncode == 0, again.stderr
        r.clean()
        r.close()


def case_our_own_disk_is_full():
    """The recorder says it, too; without GPU work nobody else does."""
    r = Run()
    os.mkdir(r.rec)
    with runner.small_disk(r.rec, "8k"):
        r.run(["sleep", 3])
        assert r.status == 0 and r.err.count(b"the record could not be written; make room") == 1, (r.status, r.err)
    r.close()


def case_signals_of_all_kinds():
    """Also an alarm that was set before us, and what some schedulers send."""
    for signo in (signal.SIGALRM, signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN, signal.SIGRTMIN + 5):
        r = Run()
        p = r.start(["sh", "-c", "echo up; exec sleep 20"])
        assert p.stdout.readline() == b"up\n"
        time.sleep(0.3)
        p.send_signal(signo)
        p.communicate(timeout=20)
        assert p.returncode == -signo and r.dump()["ended"] == "1", (signo, p.returncode)
        r.close()
    r = Run()
    p = r.start(["sleep", 20], preexec_fn=lambda: signal.alarm(1))
    p.communicate(timeout=15)
    assert p.returncode == -signal.SIGALRM, p.returncode
    r.close()


FILLS = "import sys; sys.stdout.write('x' * 65536); sys.stdout.flush(); "  # as much as a pipe holds: the report must wait


def wait_for_file(path):
    end = time.time() + 20
    while not os.path.exists(path) and time.time() < end:
        time.sleep(0.05)
    assert os.path.exists(path), path


def case_a_report_that_takes_long():
    """Ctrl-C ends it, and the job's status is passed on."""
    r = Run()
    done = os.path.join(r.dir, "done")
    p = r.start([PY, "-c", FILLS + "open(%r, 'w'); sys.exit(9)" % done], "--no-hook", "--json", "-", report=True)
    wait_for_file(done)
    time.sleep(2.5)
    assert p.poll() is None
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=20) == 9
    _, err = p.communicate()
    assert b"the diagnosis was ended; the record is complete: gpuwhy read" in err, err
    assert subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE).returncode == 0
    r.close()


def case_signals_while_a_report_is_made():
    """The recording has ended and the job goes on: what is sent reaches it at once."""
    r = Run()
    got = os.path.join(r.dir, "got")
    code = FILLS + "import signal, time\nsignal.signal(signal.SIGUSR1, lambda *a: open(%r, 'w'))\nfor i in range(100): time.sleep(0.1)\nsys.exit(6)" % got
    p = r.start([PY, "-c", code], "--no-hook", "--for", "1s", "--json", "-", report=True)
    time.sleep(3.5)
    p.send_signal(signal.SIGUSR1)
    wait_for_file(got)
    out, _ = p.communicate(timeout=60)
    assert p.returncode == 6 and b'"gpuwhy.report/1"' in out, (p.returncode, out[-300:])
    r.close()


def case_the_terminal_goes_away():
    """Its hang-up is for all of the job, as without us: also for what a shell script has started."""
    r = Run()
    got = os.path.join(r.dir, "got")
    code = "import signal, sys, time\nsignal.signal(signal.SIGHUP, lambda *a: (open(%r, 'w'), sys.exit(0)))\nprint('up', flush=True)\ntime.sleep(20)" % got
    pid, fd = pty.fork()
    if pid == 0: # a shell that leads the session, as the one of a terminal window does
        os.chdir(r.dir)
        os.execvpe("bash", ["bash", "--norc", "-c", "set -m; \"$@\"; exit", "bash"] + r.command("--no-hook") + ["sh", "-c", '%s -c "$0"; :' % PY, code], r.env())
    out, end = b"", time.time() + 20
    while b"up" not in out and time.time() < end:
        out += os.read(fd, 4096)
    time.sleep(0.5)
    os.close(fd)
    wait_for_file(got)
    os.waitpid(pid, 0)
    r.close()


def case_many_processes():
    """The more there are, the less often they are looked at."""
    r = Run().run(["sh", "-c", "i=0; while [ $i -lt 300 ]; do sleep 12 & i=$((i+1)); done; wait"], "--no-hook")
    assert r.status == 0, r.err
    r.dump()
    cpu = r.counters("recorder.cpu_s")
    late = (cpu[-1] - cpu[len(cpu) // 2]) / (len(cpu) - 1 - len(cpu) // 2)  # a second, without the first look at each
    assert len(re.findall(r"^process what=1 ", r.text, re.M)) > 290
    looks = len(r.counters("process.threads")) / 301
    assert looks < 9 and late < 0.08, (looks, late)
    r.close()


# --- the record ------------------------------------------------------------------------------------------------------


def case_report():
    r = Run().run([JOB, "steps", 3000], "--full", report=True)
    assert r.status == 0 and r.out == b"launched 30000\n", (r.status, r.out)
    assert b"Fake H200" in r.err and b"the record is in" in r.err, r.err
    again = subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE)
    assert again.returncode == 0 and b"Fake H200" in again.stdout
    one = subprocess.run([GPUWHY, "read", r.cuda()[0]], stdout=subprocess.PIPE)
    assert one.returncode == 0 and one.stdout == again.stdout
    # The figures: 10 kernels of 50 us and a copy of 40 us a step.
    r.clean()
    r.close()


def case_record_folder_is_kept_safe():
    r = Run().run(["true"])
    assert r.status == 0
    r.run(["true"])
    assert r.status == 125 and b"holds a record already" in r.err, (r.status, r.err)
    r.close()


def case_for():
    r = Run()
    began = time.time()
    p = r.start([JOB, "steps", 5000], "--full", "--for", "1s", report=True)
    out, err = p.communicate(timeout=60)
    assert out == b"launched 50000\n" and p.returncode == 0
    assert b"the recording has ended" in err and time.time() - began > 2, err
    d = r.dump(r.cuda()[0])
    assert d["state"] == "stopped" and 0 < int(d["kernels"]) < 45000, d
    r.clean()
    r.close()


def case_kill_9_of_the_recorder():
    """The job goes on, its own file stays readable, and recording ends by itself."""
    r = Run()
    p = r.start([JOB, "steps", 3000], "--full")
    time.sleep(1.0)
    p.kill()
    out = p.stdout.read()  # until the job closes it
    p.wait()
    assert out == b"launched 30000\n", out
    d = r.dump()
    assert d["ended"] == "0" and int(d["threads"]) > 5, d
    d = r.dump(r.cuda()[0])
    assert int(d["kernels"]) > 1000 and d["damaged"] == "0", d
    again = subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert again.returncode == 0, again.stderr
    r.close()


def case_kill_9_of_the_job():
    r = Run().run([JOB, "steps", 1500, "sleep", 1500, "kill", 9], "--full")
    assert r.status == -9
    again = subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert again.returncode == 0 and b"Fake H200" in again.stdout, (again.stdout, again.stderr)
    r.close()


def case_disk_full():
    r = Run()
    os.mkdir(r.rec)
    with runner.small_disk(r.rec, "512k"):
        r.run([JOB, "steps", 4000], "--full")
        assert r.status == 0 and r.out == b"launched 40000\n", (r.status, r.out)
        assert b"could not be written" in r.err, r.err
        assert r.dump(r.cuda()[0])["state"] == "disk-full"
        again = subprocess.run([GPUWHY, "read", r.rec], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert again.returncode == 0, again.stderr
        r.clean()
    r.close()


def case_injection_taken():
    r = Run().run([JOB, "steps", 50], "--full", env={"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"})
    assert r.status == 0 and b"already set" in r.err, r.err
    assert not r.cuda()
    r.close()


def uvm(r):
    os.makedirs(os.path.join(r.dir, "dev"), exist_ok=True)
    return {"FAKE_UVM": os.path.join(r.dir, "dev", "nvidia-uvm")}


def case_injection_ignored():
    """CUDA runs and we are not in it, because the job clears the variable or the driver cannot load us: we say so."""
    for job, env in ((["env", "-u", "CUDA_INJECTION64_PATH", JOB, "sleep", 6500], {}), ([JOB, "sleep", 6500], {"GPUWHY_LIB": "lib"})):
        r = Run()
        os.mkdir(os.path.join(r.dir, "lib"))
        with open(os.path.join(r.dir, "lib", "libgpuwhy_inject.so"), "w") as f:
            f.write("not a library")
        r.run(job, env=dict(env, **uvm(r)))
        assert r.status == 0
        assert b"its GPU work is not recorded" in r.err, r.err
        r.dump()
        assert "injection.ignored=" in r.text
        r.close()


def case_injection_not_ignored():
    """CUDA's library is there for seconds before CUDA starts, as after `import torch`: no warning, and work is recorded."""
    for job in ([JOB, "late", 5500, "steps", 5000], [JOB, "steps", 5000, "sleep", 1000]):
        r = Run()
        r.run(job, env=uvm(r))
        assert r.status == 0 and r.err == b"", r.err
        r.dump()
        assert "injection.ignored=" not in r.text
        assert int(r.dump(r.cuda()[0])["kernels"]) > 1000, r.text[-500:]
        r.clean()
        r.close()


def case_no_gpu_records():
    r = Run().run([JOB, "steps", 500], "--no-gpu-records")
    assert r.status == 0 and not r.cuda() and r.err == b"", r.err
    r.close()


WORKERS = """
import multiprocessing as mp, os, sys, time
def busy(q):
    until = time.time() + 3
    while time.time() < until: sum(range(1000))
def asleep(q):
    q.get()
def main():
    ctx = mp.get_context("fork")
    q = ctx.Queue()
    ps = [ctx.Process(target=busy, args=(q,)) for _ in range(2)] + [ctx.Process(target=asleep, args=(q,))]
    for p in ps: p.start()
    print("pids", os.getpid(), *[p.pid for p in ps], flush=True)
    for p in ps[:2]: p.join()
    time.sleep(2.2); q.put(1); ps[2].join()
main()
"""


def case_alone_in_a_folder():
    """A copy of the program without its library and its hook says what is missing, and records the rest."""
    r = Run()
    alone = os.path.join(r.dir, "gpuwhy")
    shutil.copy(GPUWHY, alone)
    p = subprocess.run([alone, "run", "-o", r.rec, "--no-report", "--", "sh", "-c", "exit 3"], cwd=r.dir, env=r.env(), stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60, check=False)
    assert p.returncode == 3, p
    assert "libgpuwhy_inject.so is not beside gpuwhy" in p.stderr and "settings hook" in p.stderr, p.stderr
    p = subprocess.run([alone, "run", "-o", r.rec + "2", "--no-report", "--no-hook", "--no-gpu-records", "--", "true"], cwd=r.dir, env=r.env(),
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60, check=False)
    assert p.returncode == 0 and "beside" not in p.stderr, p.stderr
    return r


def case_worker_pool():
    """Real Python workers: found, told apart, their CPU time and waiting adds up."""
    r = Run().run([PY, "-c", WORKERS], "--no-hook")
    assert r.status == 0, r.err
    main, w1, w2, w3 = [int(x) for x in r.out.split()[1:5]]
    r.dump()
    procs = dict((int(p), int(f)) for p, f in re.findall(r"^process what=1 pid=(\d+) ppid=\d+ flags=(\d+)", r.text, re.M))
    assert {main, w1, w2, w3} <= set(procs), (procs, r.out)
    assert procs[main] & 1 and all(procs[w] & 16 for w in (w1, w2, w3)), procs  # child; forked copies of it
    ended = {int(p) for p in re.findall(r"^process what=2 pid=(\d+)", r.text, re.M)}
    assert w1 in ended or w2 in ended, ended
    samples = re.findall(r"^thread pid=(\d+) tid=(\d+) state=(\S) syscall=(-?\d+) wchan=\d+ comm=\d+ stack=\d+ cpu=(\d+)", r.text, re.M)
    cpu = {}
    for pid, tid, state, nr, ns in samples:
        cpu.setdefault(int(pid), []).append(int(ns))
    # Two busy workers, on a machine that may have one CPU or be loaded: together they did most of what one CPU can do.
    burnt = sum(max(cpu[w]) - min(cpu[w]) for w in (w1, w2)) / 1e9
    assert burnt > 1.0, burnt
    assert max(cpu[w3]) - min(cpu[w3]) < 0.3e9
    states = [s for pid, _, s, _, _ in samples if int(pid) == w3]
    assert states.count("S") > len(states) * 0.8, states
    r.close()


def case_nvml():
    if not os.path.exists(os.path.join(FAKES, "libnvidia-ml.so.1")):
        raise runner.Skip("no fake NVML")
    r = Run().run([JOB, "steps", 3000], "--full")
    r.dump()
    assert "gpu.0.name=Fake H200 0" in r.text and "gpu.0.gpm=yes" in r.text, r.text[:3000]
    assert len(r.counters("nvml.power_w")) >= 4 and set(r.counters("nvml.power_w")) == {350.5}
    assert set(r.counters("gpm.sm_percent")) == {42.0}, r.counters("gpm.sm_percent")
    assert r.counters("nvml.process_bytes")
    r.clean()
    r.close()


def case_no_nvml():
    r = Run().run([JOB, "steps", 500], "--full", env={"GPUWHY_NVML": "/nonexistent/libnvidia-ml.so.1"})
    assert r.status == 0 and r.err == b"", (r.status, r.err)
    r.dump()
    assert "permission.nvml=no" in r.text
    r.close()


def case_two_cuda_processes():
    """Ranks: each process has a file of its own; both are in the report."""
    r = Run().run(["sh", "-c", f"{JOB} steps 1500 & {JOB} steps 1500; wait"], "--full", report=True)
    assert r.status == 0, r.err
    assert len(r.cuda()) == 2
    r.clean()
    r.close()


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:]), threads=3)) # they mostly sleep
