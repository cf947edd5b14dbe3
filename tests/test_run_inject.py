#!/usr/bin/env python3
"""libgpuwhy_inject.so inside jobs, with a fake driver and a fake CUPTI that check every call.

usage: test_run_inject.py BUILD_DIR [NAME...]

Each case starts tests/fake_job under a hand-made control file and compares the record with what the job says it did.
Exit 0 when all pass, 1 with a line for each failure.
"""
import ctypes
import glob
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import runner

BUILD = os.path.abspath(sys.argv[1])
FAKES = os.path.join(BUILD, "fakes")
INJECT = os.path.join(BUILD, "libgpuwhy_inject.so")
SEC = 10**9
MS = 10**6


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Case:
    """One record folder, its control file and the jobs that run under it."""

    def __init__(self, first=0, first_len=SEC, window=SEC, period=SEC, max_bytes=0, kinds=0x3F, beat=True, stop=0,
                 adaptive=0, look=0):
        self.dir = tempfile.mkdtemp(prefix="gwrun-")
        self.rec = os.path.join(self.dir, "rec")
        os.mkdir(self.rec)
        self.log = os.path.join(self.dir, "breaches")
        self.fields = dict(stop=stop, first=first, first_len=first_len, window=window, period=period,
                           max_bytes=max_bytes, kinds=kinds, beat=beat, open_now=0, adaptive=adaptive, look=look)
        self.control()

    def control(self, **change):
        f = self.fields
        f.update(change)
        data = struct.pack("<8sIIQQQQQQIIIII", b"GPUWHY\1\n", 1, f["stop"], boot_ns() if f["beat"] is True else f["beat"],
                           f["first"], f["first_len"], f["window"], f["period"], f["max_bytes"], f["kinds"],
                           os.getpid(), f["open_now"], f["adaptive"], f["look"])
        path = os.path.join(self.rec, "control")
        with open(path + ".new", "wb") as out:
            out.write(data.ljust(128, b"\0"))
        os.rename(path + ".new", path)

    def env(self, **extra):
        # The leak check at exit stops all threads in the middle of ours ending; leaks of the job are not our business.
        e = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:handle_segv=0:handle_abort=0", LD_LIBRARY_PATH=FAKES, CUDA_INJECTION64_PATH=INJECT, GPUWHY_RECORD=self.rec,
                 FAKE_LOG=self.log, FAKE_CUPTI_LIB=os.path.join(FAKES, "libcupti.so.13"))
        e.update(extra)
        return e

    def start(self, *args, stdin=None, program="fake_job", before=None, **extra):
        return subprocess.Popen([os.path.join(FAKES, program), *map(str, args)], env=self.env(**extra), cwd=self.dir, preexec_fn=before,
                                stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                universal_newlines=True)

    def run(self, *args, **extra):
        p = self.start(*args, **extra)
        self.out, self.err = p.communicate(timeout=120)
        self.status = p.returncode
        return self

    def files(self):
        return sorted(glob.glob(os.path.join(self.rec, "cuda-*.gwr")))

    def dump(self, verbose=False, only=None):
        files = [only] if only else self.files()
        assert len(files) == 1, f"record files: {files}"
        out = subprocess.run([os.path.join(FAKES, "record_dump")] + (["-v"] if verbose else []) + files,
                             stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        last = out.strip().splitlines()[-1]
        total = {k: int(v) if re.fullmatch(r"-?\d+", v) else v for k, v in re.findall(r"(\w+)=(\S+)", last)}
        self.text = out
        return total

    def launched(self):
        return int(re.findall(r"launched (\d+)", self.out)[-1])

    def clean(self):
        """No rule of CUPTI was broken and the job said nothing of us."""
        if os.path.exists(self.log):
            with open(self.log) as f:
                raise AssertionError("breaches:\n" + f.read())
        assert self.err == "", f"stderr: {self.err!r}"

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def full(**kw):
    return Case(window=0, **kw)


def expect(total, **want):
    for key, value in want.items():
        got = total[key]
        ok = value(got) if callable(value) else got == value
        assert ok, f"{key} is {got}, wanted {value if not callable(value) else 'otherwise'}; {total}"


# --- cases -------------------------------------------------------------------------------------------------------


def case_full_is_complete():
    """Everything launched is recorded, with its launch, names and devices; the job's output is its own."""
    c = full().run("steps", 200)
    t = c.dump(verbose=True)
    expect(t, state="ended", kernels=c.launched(), kernel_ns=2000 * 50000, copies=200, sets=200, syncs=200, launches=2000,
           filtered=1600, damaged=0, missing=0, ended=1, dropped=0, overflow=0, unfinished=0, unknown=0, devices=1, cupti=130001)
    assert "name space=1 id=1 _Z5gemm1PfS_S_i" in c.text and "cudaLaunchKernel_v7000" in c.text
    assert "device ordinal=0 name=Fake sms=132 cc=9.0" in re.sub(r"Fake H200 0", "Fake", c.text)
    assert c.out == "launched 2000\n" and c.status == 0
    c.clean()
    return c


def case_windows_are_complete():
    """Windows record part of the run; each kernel in them has its launch; the kinds are off between them."""
    c = Case(first=200 * MS, first_len=300 * MS, window=200 * MS, period=500 * MS).run("steps", 3000)
    t = c.dump(verbose=True)
    expect(t, state="ended", windows=lambda n: n >= 2, kernels=lambda n: 0 < n < c.launched(), ended=1)
    # A launch whose call was open when a window opened has its kernel and its call or neither.
    assert abs(t["kernels"] - t["launches"]) <= 2 * t["windows"], t
    opens = len(re.findall(r"window what=1", c.text))
    closes = len(re.findall(r"window what=2", c.text))
    assert opens == closes == t["windows"], (opens, closes)
    c.clean()
    return c


def case_threads():
    c = full().run("threads", 8, 100)
    expect(c.dump(), kernels=8000, launches=8000, unfinished=0, state="ended")
    c.clean()
    return c


def case_burst_overflows_are_counted():
    """A launch loop faster than the writer: every record is kept or counted, never both lost and unsaid."""
    c = full().run("burst", 400000)
    t = c.dump()
    lost = t["dropped"] + t["spool_lost"] + t["unfinished"]
    # The pool may run low: then the window closes for a second, and the loss shows as a closed window.
    closed = t["windows"] > 1
    assert closed or t["overflow"] or t["kernels"] + lost >= 400000, t
    c.clean()
    return c


def case_old_cupti_gets_no_null():
    c = full().run("burst", 300000, FAKE_CUPTI_VERSION="18")
    t = c.dump()
    expect(t, cupti=18, kernels=lambda n: n > 1000)
    c.clean()
    return c


def case_too_old():
    c = full().run("steps", 5, FAKE_CUPTI_VERSION="17")
    expect(c.dump(), state="old-cupti", kernels=0)
    assert c.status == 0 and c.out == "launched 50\n"
    c.clean()
    return c


def case_no_cupti():
    c = full().run("steps", 5, GPUWHY_CUPTI="/nonexistent/libcupti.so.13")
    expect(c.dump(), state="no-cupti", kernels=0)
    assert c.status == 0 and c.out == "launched 50\n"
    c.clean()
    return c


def case_refusals():
    """Each CUPTI function may fail with each code; the job never notices and the state says so."""
    for fn in ("cuptiActivityRegisterCallbacks", "cuptiActivityEnable", "cuptiActivityFlushAll", "cuptiSetThreadIdType",
               "cuptiActivitySetAttribute", "cuptiGetTimestamp", "cuptiGetCallbackName", "cuptiActivityGetNumDroppedRecords",
               "cuptiActivityDisable", "cuptiActivityEnableAllSyncRecords", "cuptiGetVersion", "cuptiActivityGetNextRecord"):
        for code in (15, 35, 39):
            c = full().run("steps", 20, FAKE_CUPTI_FAIL=f"{fn}:{code}")
            t = c.dump()
            assert c.status == 0 and c.out == "launched 200\n", (fn, code, c.status, c.out)
            if fn in ("cuptiActivityRegisterCallbacks", "cuptiActivityEnable"):
                expect(t, state="refused", result=code)
            c.clean()
            c.close()
    return None


def case_kill_9_of_the_job():
    """What was flushed before kill -9 is readable."""
    c = full().run("steps", 400, "sleep", 1600, "kill", 9)
    t = c.dump()
    assert c.status == -9
    expect(t, ended=0, kernels=4000, damaged=0)
    c.clean()
    return c


def case_exit_codes():
    for args, status in ((("exit", 3), 3), (("_exit", 4), 4), (("abort",), -6), (("kill", 15), -15), (("kill", 11), -11)):
        for make in (full, Case):
            c = make().run("steps", 20, *args)
            assert c.status == status, (args, c.status)
            c.clean()
            c.close()
    return None


def case_forks():
    c = full().run("steps", 50, "fork", "steps", 50)
    t = c.dump()
    assert re.findall(r"child \d ended (\d+)", c.out) == ["0", "0", "0"], c.out
    expect(t, kernels=1000, ended=1)
    c.clean()
    return c


def case_exec():
    """The same pid starts a new image inside a window: two files, both readable."""
    c = full().run("steps", 50, "exec", "steps", 30)
    assert c.status == 0
    files = c.files()
    assert len(files) == 2, files
    second = c.dump(only=files[1])
    expect(second, kernels=300, ended=1)
    first = c.dump(only=files[0])
    expect(first, damaged=0, ended=0)
    c.clean()
    return c


def case_closed_descriptors():
    """A job that closes every descriptor: its own new file is never written into."""
    c = full().run("steps", 50, "closefds", "steps", 200, "sleep", 300)
    mine = os.path.join(c.dir, "mine.txt")
    assert os.path.getsize(mine) == 0, os.path.getsize(mine)
    expect(c.dump(), damaged=0)
    assert c.status == 0
    c.clean()
    return c


def case_size_limit():
    c = full(max_bytes=100000).run("steps", 3000)
    t = c.dump()
    assert os.path.getsize(c.files()[0]) <= 100000
    expect(t, damaged=0, torn=0)
    assert t["state"] in ("size-limit", "ended") and t["kernels"] < c.launched()
    c.clean()
    return c


def case_no_file_may_grow():
    """ulimit -f of the job: what it forbids us does not end the job (SIGXFSZ), and the job's own signal still would."""
    for blocks in (0, 1, 4096):
        for make in (full, lambda: Case(adaptive=1)):
            c = make().run("steps", 300, before=lambda n=blocks: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n)))
            assert c.status == 0 and c.out == "launched 3000\n", (blocks, c.status, c.out, c.err)
            c.clean()
            c.close()
    c = full()
    p = subprocess.run([sys.executable, "-c", "import signal, os; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); f = os.open('x', os.O_WRONLY | os.O_CREAT); "
                        "os.write(f, b'y')"], cwd=c.dir, env=c.env(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)), check=False)
    assert p.returncode == -signal.SIGXFSZ, p
    return c


def case_disk_full():
    """A real full file system (a small tmpfs, where we may mount one)."""
    c = full()
    with runner.small_disk(c.rec, "256k"):
        c.control()
        c.run("steps", 3000)
        t = c.dump()
        expect(t, damaged=0, state="disk-full")
        assert c.status == 0 and c.out == "launched 30000\n"
        assert 0 < t["kernels"] < 30000, t
        c.clean()
    return c


def case_recorder_gone():
    """No heartbeat for long: recording stops by itself and the job goes on."""
    c = full(beat=max(1, boot_ns() - 60 * SEC))
    p = c.start("steps", 1600 * 10)
    c.out, c.err = p.communicate(timeout=120)
    t = c.dump()
    assert p.returncode == 0
    expect(t, state=lambda s: s in ("stopped", "orphaned"), kernels=lambda n: 0 < n < c.launched())
    c.clean()
    return c


def case_stop():
    c = full()
    p = c.start("steps", 3000)
    time.sleep(0.6)
    c.control(stop=1)
    c.out, c.err = p.communicate(timeout=120)
    t = c.dump()
    expect(t, state="stopped", kernels=lambda n: 0 < n < c.launched() * 0.8)
    c.clean()
    return c


def case_open_now():
    c = Case(first=3600 * SEC, first_len=200 * MS, window=100 * SEC, period=3600 * SEC)
    p = c.start("steps", 2500)
    time.sleep(0.5)
    c.control(open_now=1)
    c.out, c.err = p.communicate(timeout=120)
    expect(c.dump(), windows=1, kernels=lambda n: n > 0)
    c.clean()
    return c


def case_inert():
    """Without a record folder, or with a broken one, the library does nothing at all."""
    for change in ({"GPUWHY_RECORD": ""}, {"GPUWHY_RECORD": "/nonexistent"}, {"GPUWHY_RECORD": "relative"}):
        c = full().run("steps", 10, **change)
        assert c.status == 0 and not c.files()
        c.clean()
        c.close()
    c = full()
    with open(os.path.join(c.rec, "control"), "wb") as f:
        f.write(b"junk")
    c.run("steps", 10)
    assert c.status == 0 and not c.files()
    c.clean()
    return c


def case_polite_profiler():
    """Paused by the settings hook around the job's own profiler: both see all their kernels."""
    c = full().run("steps", 100, "pausing", 500, "steps", 2000)
    saw, of = map(int, re.search(r"other saw (\d+) of (\d+)", c.out).groups())
    t = c.dump()
    assert saw == of > 0, c.out
    # Recording goes on after it: at least the steps after the pause but for the moment of the restart.
    expect(t, state="ended", kernels=lambda n: 1000 + 15000 < n <= 21000)
    c.clean()
    return c


def case_rude_profiler_in_full():
    """Another profiler takes the callbacks without a word: it loses nothing, and we say that records stopped."""
    c = full().run("steps", 100, "other", 500, "steps", 19000)
    saw, of = map(int, re.search(r"other saw (\d+) of (\d+)", c.out).groups())
    t = c.dump()
    assert saw == of > 0, c.out
    expect(t, state="taken", kernels=lambda n: 0 < n <= 1000)
    c.clean()
    return c


def case_rude_profiler_between_windows():
    """The same, while a window is due: its kinds are not switched off under its feet."""
    c = Case(first=100 * MS, first_len=100 * MS, window=100 * MS, period=1000 * MS).run("steps", 200, "other", 2500)
    saw, of = map(int, re.search(r"other saw (\d+) of (\d+)", c.out).groups())
    assert saw == of > 0, c.out
    c.clean()
    return c


def case_rude_profiler_is_left_alone():
    """Once another profiler has CUPTI, no call is made to it any more: not at the next window, not at the end."""
    for fields in (dict(first=100 * MS, first_len=100 * MS, window=100 * MS, period=500 * MS), dict(adaptive=1)):
        c = Case(**fields)
        calls = os.path.join(c.dir, "calls")
        c.run("steps", 2000, "other", 6000, "steps", 2000, FAKE_CALLS=calls)
        saw, of = map(int, re.search(r"other saw (\d+) of (\d+)", c.out).groups())
        assert saw == of > 0, c.out
        expect(c.dump(), state="taken")
        with open(calls) as f:
            lines = f.read().split("\n")
        after = [x for x in lines[lines.index("-- another profiler") + 1:] if x]
        # Only what it takes to find out: the question, perhaps in an open window that was read now and then until it fell silent.
        assert set(after) <= {"cuptiActivityEnableAndDump", "cuptiActivityDisable", "cuptiActivityFlushAll", "cuptiGetTimestamp",
                              "cuptiActivityGetNextRecord"} and len(after) < 60, after
        assert "cuptiActivityEnable" in lines and after.count("cuptiActivityDisable") == 1, after
        c.clean()
        c.close()
    return None


def case_nothing_of_cupti_before_the_first_window():
    c = Case(first=3600 * SEC)
    calls = os.path.join(c.dir, "calls")
    c.run("steps", 500, FAKE_CALLS=calls)
    assert not os.path.exists(calls), open(calls).read()
    expect(c.dump(), state="ended", windows=0, kernels=0, devices=1, cupti=0)
    c.clean()
    return c


def case_cupti_that_does_not_return():
    """A flush that hangs holds up neither the job's threads nor, for long, its end."""
    plain = Case(first=3600 * SEC).run("threads", 4, 800)
    for make in (full, lambda: Case(adaptive=1)):
        c = make()
        began = time.time()
        c.run("threads", 4, 800, FAKE_CUPTI_BLOCK="30000")
        took = time.time() - began
        assert c.status == 0 and c.out == plain.out, (c.status, c.out)
        assert took < 12, took
        c.clean()
        c.close()
    return plain


def case_windows_follow_the_work():
    """A job that starts to work late and lives for seconds only is recorded while it works."""
    c = Case(adaptive=1).run("steps", 1, "sleep", 4000, "steps", 4000)
    t = c.dump(verbose=True)
    expect(t, state="ended", kernels=lambda n: n > 8000, devices=1, ended=1)
    opens = [int(x) for x in re.findall(r"window what=1 number=\d+ reason=\d+ requested=\d+ t=(\d+)", c.text)]
    closes = [int(x) for x in re.findall(r"window what=2 number=\d+ reason=\d+ requested=\d+ t=(\d+)", c.text)]
    lengths = [b - a for a, b in zip(opens, closes)]
    assert len(opens) == len(closes) >= 3 and max(lengths) < 6 * SEC, lengths
    assert lengths[0] < 3.5 * SEC and max(lengths) > 1.9 * SEC, lengths
    assert abs(t["kernels"] - t["launches"]) <= 2 * t["windows"], t
    c.clean()
    return c


def counted(c, t):
    """What the job called and what was counted: all of it but the start, before the first look found its table."""
    launches, waits, graphs, copies, reads, wrong = map(
        int, re.search(r"launches (\d+) waits (\d+) graphs (\d+) copies (\d+) reads (\d+) wrong (\d+)", c.out).groups())
    assert wrong == 0, c.out
    for name, did in (("launch", launches), ("wait", waits), ("graph", graphs), ("copy", copies), ("read", reads)):
        got = t["called_" + name]
        # The first look comes after half a second, a lazy table's second one half a second later, the last one at most half before the end.
        assert (did == 0 and got == 0) or 0.3 * did <= got <= did, f"{name}: {got} of {did}"


def launch_bound(program):
    c = Case(adaptive=1, look=1).run("rtbusy", 5000, program=program)
    t = c.dump(verbose=True)
    # Some 300,000 launches a second at 2.6 us each (fewer on a busy machine), and no time to spare: CUPTI is not touched at all.
    expect(t, state="held", kernels=0, windows=0, cupti=0, damaged=0, missing=0, cost_ppm=lambda v: v > 50000)
    counted(c, t)
    c.clean()
    return c


def case_launch_bound_job_is_held():
    """A job that is bound by its launches: counted, held, no CUPTI; its table of addresses is filled call by call."""
    return launch_bound("fake_job")


def case_launch_bound_job_with_a_read_only_table():
    return launch_bound("fake_job_now")


def case_waiting_job_is_recorded():
    """Few launches, and the host waits: the gate opens and windows are complete as ever."""
    c = Case(adaptive=1, look=1).run("rtwait", 8000)
    t = c.dump()
    expect(t, state="ended", windows=lambda v: v >= 1, kernels=lambda v: v > 500, cost_ppm=lambda v: v <= 15000,
           slack_ns=lambda v: v > 3 * 10**9)
    counted(c, t)
    c.clean()
    return c


def case_full_queue_is_recorded():
    """The GPU is what everything waits for: launches take long because the queue is full, and cost nothing to record."""
    c = Case(adaptive=1, look=1).run("rtfull", 7000)
    t = c.dump()
    expect(t, state="ended", windows=lambda v: v >= 1, cost_ppm=lambda v: v <= 30000, called_fresh=1)
    c.clean()
    return c


def case_new_grids_are_counted():
    c = Case(adaptive=1, look=1).run("rtgrids", 4000)
    t = c.dump()
    # two bits of 2^19 each: two grids that share both are rarer than one in a hundred here
    expect(t, called_fresh=lambda v: 0.095 * t["called_launch"] < v < 0.105 * t["called_launch"])
    c.clean()
    return c


def case_nothing_to_count_is_recorded_late():
    """A job whose launches do not go through a table: nobody can know, so windows open all the same, after three seconds."""
    c = Case(adaptive=1, look=1).run("threads", 1, 9000)
    expect(c.dump(), state="ended", windows=lambda v: v >= 1, called_launch=0)
    c.clean()
    return c


def case_signals():
    """Signals reach the job and never our thread."""
    c = full()
    p = c.start("traps", "steps", 100000)
    assert p.stdout.readline() == "ready\n"
    for _ in range(20):
        p.send_signal(signal.SIGUSR1)
        time.sleep(0.02)
    p.send_signal(signal.SIGTERM)
    c.out, c.err = p.communicate(timeout=60)
    assert p.returncode == 7, p.returncode
    assert c.out.count("signal 10") >= 10 and "signal 15" in c.out
    expect(c.dump(), ended=1, kernels=lambda n: n > 0)
    c.clean()
    return c


def case_another_clock():
    c = full().run("steps", 20, FAKE_CUPTI_CLOCK="mono")
    expect(c.dump(), kernels=200)
    c.clean()
    return c


def case_exports():
    """Nothing but the three entry points is visible, and nothing but libc is needed."""
    out = subprocess.run(["nm", "-D", "--defined-only", INJECT], stdout=subprocess.PIPE, universal_newlines=True).stdout
    names = sorted(line.split()[-1] for line in out.splitlines() if " T " in line)
    assert names == ["InitializeInjection", "gpuwhy_inject_pause", "gpuwhy_inject_state"], names
    out = subprocess.run(["nm", "-D", "--undefined-only", INJECT], stdout=subprocess.PIPE, universal_newlines=True).stdout
    used = {line.split()[-1].split("@")[0] for line in out.splitlines()}
    if not any(n.startswith(("__asan", "__tsan")) for n in used):
        banned = {"exit", "_exit", "abort", "printf", "fprintf", "puts", "fwrite", "malloc", "calloc", "realloc", "system",
                  "signal", "sigaction", "kill", "raise", "__assert_fail", "perror", "__printf_chk", "__fprintf_chk"}
        assert not used & banned, used & banned
    return None


if __name__ == "__main__":
    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:])))
