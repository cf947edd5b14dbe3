#!/usr/bin/env python3
"""The program as a user meets it: options, exit statuses, streams, terminals, signals, bad files.

usage: cli_test.py GPUWHY SAMPLES [NAME...]
Each method of a class Test... is a test; NAMEs pick some. Nothing is written outside a temporary folder.
"""
import fcntl
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

GPUWHY, SAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SYNC = os.path.join(SAMPLES, "item_sync.json.gz")
SMALL = os.path.join(SAMPLES, "embed.json.gz")
OK, USAGE, INPUT, INTERNAL = 0, 2, 3, 4


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "NO_COLOR", "TERM", "COLUMNS"))}
    env.update({"LC_ALL": "C.UTF-8", "TERM": "xterm"}, **more)
    return env


def content(path):
    with open(path, "rb") as f:
        return f.read()


def run(*args, stdout=subprocess.PIPE, env=None, **kw):
    p = subprocess.run([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                       env=env or environment(), timeout=120, **kw)
    p.out = (p.stdout or b"").decode("utf-8")
    p.err = p.stderr.decode("utf-8")
    return p


def on_terminal(args, env=None, columns=80, until=None):
    """Runs with stdout and stderr on two pseudo-terminals. Returns (status, out, err). `until(err)` may return a
    signal to send; it is asked again whenever there is more."""
    masters, slaves = zip(*(pty.openpty() for _ in range(2)))
    for s in slaves:
        fcntl.ioctl(s, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    p = subprocess.Popen([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=slaves[0], stderr=slaves[1],
                         env=env or environment(), start_new_session=True)
    for s in slaves:
        os.close(s)
    got, sent, end = [b"", b""], False, time.monotonic() + 110
    live = list(masters)
    while live and time.monotonic() < end:
        for fd in select.select(live, [], [], 0.1)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:  # the other side is closed
                data = b""
            if data:
                got[masters.index(fd)] += data
            else:
                live.remove(fd)
        if until and not sent:
            sig = until(got[1])
            if sig:
                p.send_signal(sig)
                sent = True
    if p.poll() is None and live:
        p.kill()
    status = p.wait()
    for m in masters:
        os.close(m)
    return status, *(g.decode("utf-8").replace("\r\n", "\n") for g in got)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="gpuwhy-cli-")
        self.addCleanup(shutil.rmtree, self.dir)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)
        return self.path(name)

    def refused(self, p, status, *words):
        """One line on stderr, nothing on stdout, this status, these words."""
        self.assertEqual(p.returncode, status, p.err)
        self.assertEqual(p.out, "")
        self.assertRegex(p.err, r"\Agpuwhy: [^\n]+\n\Z")
        for w in words:
            self.assertIn(w, p.err)

    def misused(self, *args):
        p = run(*args)
        self.assertEqual(p.returncode, USAGE, p.err)
        self.assertEqual(p.out, "")
        self.assertTrue(p.err.startswith("gpuwhy"), p.err)
        return p.err


PAGE = ["What it means", "How it is measured", "What else looks like it", "What to do", "What it costs", "When to leave it",
        "How to check it"]


class TestHelp(Case):
    def commands(self):
        text = run("--help").out
        return re.findall(r"^  (\w+)  ", text.split("Commands:")[1].split("Examples:")[0], re.M)

    def test_help(self):
        for option in ("--help", "-h", "-?", "help"):
            p = run(option)
            self.assertEqual((p.returncode, p.err), (OK, ""))
            for word in ("Commands:", "Examples:", "read", "explain", "Exit status:"):
                self.assertIn(word, p.out)
            self.assertTrue(all(len(line) <= 80 for line in p.out.splitlines()))

    def test_version(self):
        for option in ("--version", "-V"):
            p = run(option)
            self.assertEqual((p.returncode, p.err), (OK, ""))
            self.assertRegex(p.out, r"\Agpuwhy \d+\.\d+\.\d+\n\Z")

    def test_every_command_has_help(self):
        self.assertIn("read", self.commands())
        for c in self.commands():
            p = run(c, "--help")
            self.assertEqual((p.returncode, p.err), (OK, ""), c)
            self.assertIn(f"Usage: gpuwhy {c}", p.out)
            self.assertIn("Examples:", p.out)
            self.assertEqual(run("help", c).out, p.out)

    def test_nothing(self):
        p = run()
        self.assertEqual((p.returncode, p.out), (USAGE, ""))
        self.assertIn("Usage: gpuwhy", p.err)

    def test_unknown_command(self):
        for wrong, right in (("raed", "read"), ("rea", "read"), ("explian", "explain"), ("hepl", "help")):
            self.refused(run(wrong), USAGE, f"'{wrong}'", f"did you mean '{right}'")
        self.refused(run("zzzzzz"), USAGE, "gpuwhy --help")
        self.assertNotIn("did you mean", run("zzzzzz").err)
        self.refused(run("--bogus"), USAGE, "unknown option '--bogus'")
        self.refused(run(SMALL), USAGE, "gpuwhy read")
        self.refused(run("help", "zzz"), USAGE)
        self.assertNotIn("\033", run("\033[31m").err)

    def test_explain(self):
        p = run("explain")
        self.assertEqual((p.returncode, p.err), (OK, ""))
        for word in ("host-sync", "pageable-copy", "straggler", "checkpoint"):
            self.assertRegex(p.out, rf"(?m)^  {word}\b")
        for finding in re.findall(r"(?m)^  ([a-z][\w-]+)  ", p.out):
            one = run("explain", finding)
            self.assertEqual(one.returncode, OK)
            self.assertTrue(one.out.startswith(finding + ":"), one.out)
            parts = re.split(r"\n\n(?=[A-Z].*\n  )", one.out)  # a heading and its text
            self.assertEqual([p.split("\n")[0] for p in parts[1:]], PAGE, finding)
            for p in parts[1:]:
                self.assertGreater(len(" ".join(p.split("\n")[1:]).strip()), 4, (finding, p))
            measured = parts[2].split("\n  Shown by: ")[0]
            numbers = re.search(r"(?m)^    [\d.]+(\xa0| )?%? +\S", measured)
            text = measured[: numbers.start()] if numbers else measured
            self.assertEqual(text.rstrip().endswith(":"), bool(numbers), (finding, measured))  # numbers come from the table
            self.assertRegex(parts[4], r"(?m)^      \S", finding)  # code to copy
        self.assertEqual(run("explain", "none").returncode, OK)
        self.refused(run("explain", "host-snyc"), USAGE, "did you mean 'host-sync'")
        self.refused(run("explain", "zzzz"), USAGE, "gpuwhy explain")
        self.misused("explain", "host-sync", "none")


class TestUsage(Case):
    def test_wrong_usage(self):
        for args in ((), ("--bogus", SMALL), ("--width=x", SMALL), ("--width=1", SMALL), ("--width=-5", SMALL),
                     ("--threads=0", SMALL), ("--threads=two", SMALL), ("--max-memory=0", SMALL), ("--max-memory=lots", SMALL),
                     ("--max-memory=-1G", SMALL), ("--max-memory=99999999999999G", SMALL), ("--max-memory=1X", SMALL),
                     ("--json=", SMALL), ("",)):
            with self.subTest(args=args):
                self.assertIn("--help", self.misused("read", *args))

    def test_json_of_files_that_do_not_belong_together(self):
        self.refused(run("read", "--json", "-", SMALL, SMALL), USAGE, "--json takes one FILE")

    def test_sizes(self):
        for size in ("64M", "64m", "64MB", "64MiB", "65536K", "1G", "67108864"):
            p = run("read", "--quiet", "--max-memory", size, SMALL)
            self.assertEqual((p.returncode, p.err), (OK, ""), size)

    def test_json_must_not_overwrite_the_trace(self):
        copy = self.path("t.json.gz")
        shutil.copy(SMALL, copy)
        os.link(copy, self.path("link"))
        before = content(copy)
        for target in (copy, self.path("link")):
            self.refused(run("read", copy, "--json", target), USAGE, "overwrite")
            self.assertEqual(content(copy), before)


class TestOutput(Case):
    def test_text(self):
        p = run("read", SYNC)
        self.assertEqual((p.returncode, p.err), (OK, ""))
        for word in ("NVIDIA H200", " steps ", "compute ", "idle ", "█", "Trust"):
            self.assertIn(word, p.out)
        self.assertNotIn("\033", p.out)

    def test_json_to_stdout(self):
        for more in ((), ("--quiet",), ("--all",)):
            p = run("read", SMALL, "--json", "-", *more)
            self.assertEqual((p.returncode, p.err), (OK, ""))
            self.assertEqual(json.loads(p.out)["schema"], "gpuwhy.report/1")

    def test_json_to_file(self):
        out = self.path("r.json")
        p = run("read", SMALL, "--json", out)
        self.assertEqual(p.returncode, OK)
        self.assertIn("Trust", p.out)
        with open(out) as f:
            first = json.load(f)
        self.assertEqual(first["source"]["files"][0]["path"], SMALL)
        self.assertEqual(first["source"]["files"][0]["bytes"], os.path.getsize(SMALL))
        p = run("read", "--quiet", SMALL, "--json=" + out)
        self.assertEqual((p.returncode, p.out, p.err), (OK, "", ""))
        with open(out) as f:
            self.assertEqual(json.load(f), first)

    def test_same_input_same_report(self):
        texts = {run("read", SYNC, f"--threads={n}", "--json", "-").out for n in (1, 2, 4, 1, 3)}
        self.assertEqual(len(texts), 1)

    def test_disk_full(self):
        with open("/dev/full", "wb") as full:
            for args in (("read", SMALL), ("read", SMALL, "--json", "-"), ("--help",), ("--version",), ("explain",)):
                self.refused(run(*args, stdout=full), INTERNAL, "standard output", "No space left")
        p = run("read", SMALL, "--json", "/dev/full")
        self.assertEqual(p.returncode, INTERNAL)
        self.assertIn("Trust", p.out)
        self.assertRegex(p.err, r"\Agpuwhy: /dev/full: [^\n]+\n\Z")

    def test_json_to_no_such_folder(self):
        p = run("read", "--quiet", SMALL, "--json", self.path("no/such/folder.json"))
        self.refused(p, INTERNAL, "no/such/folder.json", "No such file")

    def test_closed_stdout(self):
        p = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", GPUWHY, "read", SMALL], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(p.returncode, INTERNAL)
        self.assertIn(b"standard output", p.stderr)

    def test_reader_that_goes_away(self):
        for args in (("read", SYNC), ("read", SYNC, "--json", "-", "--all"), ("explain",)):
            r, w = os.pipe()
            os.close(r)
            for restore in (True, False):  # SIGPIPE as in a shell, and ignored as under some parents
                p = run(*args, stdout=w, restore_signals=restore)
                self.assertIn(p.returncode, (OK, -signal.SIGPIPE), args)
                self.assertEqual(p.err, "")
            os.close(w)
        r, w = os.pipe()
        os.close(r)
        out = self.path("r.json")  # the file is complete all the same
        self.assertEqual(run("read", SYNC, "--json", out, stdout=w).returncode, OK)
        os.close(w)
        with open(out) as f:
            json.load(f)

    def test_width(self):
        for width in (40, 60, 80, 132):
            p = run("read", SYNC, "--width", str(width), "--all")
            self.assertLessEqual(max(map(len, p.out.splitlines())), width)

    def test_ascii(self):
        for locale in ("C", "POSIX", "no_SUCH.locale"):
            p = run("read", SYNC, "--all", env=environment(LC_ALL=locale))
            self.assertEqual(p.returncode, OK)
            self.assertTrue(p.out.isascii())
            self.assertIn("####", p.out)

    def test_several_files(self):
        p = run("read", SYNC, SMALL)
        self.assertEqual((p.returncode, p.err), (OK, ""))
        self.assertEqual(p.out.count("\nTrust"), 2)
        self.assertLess(p.out.index("== " + SYNC), p.out.index("== " + SMALL))
        p = run("read", self.path("missing"), SMALL)
        self.assertEqual(p.returncode, INPUT)
        self.assertEqual(p.out.count("\nTrust"), 1)
        self.assertIn("missing", p.err)

    def test_standard_input(self):
        want = json.loads(run("read", SMALL, "--json", "-").out)["devices"]
        for source in (SMALL, None):  # a file, and a pipe
            with open(SMALL, "rb") as f:
                pipe = {"stdin": f} if source else {"input": f.read()}
                p = subprocess.run([GPUWHY, "read", "-", "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   timeout=60, **pipe)
            self.assertEqual((p.returncode, p.stderr), (OK, b""))
            self.assertEqual(json.loads(p.stdout)["devices"], want)

    def test_file_name_that_looks_like_an_option(self):
        shutil.copy(SMALL, self.path("--all"))
        self.assertEqual(run("read", "--", "--all", cwd=self.dir).returncode, OK)

    def test_hostile_file_name(self):
        shutil.copy(SMALL, self.path("\033[31mx\n.json.gz"))
        p = run("read", "\033[31mx\n.json.gz", SMALL, cwd=self.dir)
        self.assertEqual(p.returncode, OK)
        self.assertNotIn("\033", p.out + p.err)
        p = run("read", "missing\033[31m", cwd=self.dir)
        self.refused(p, INPUT)
        self.assertNotIn("\033", p.err)


class TestTerminal(Case):
    def test_colours(self):
        status, out, err = on_terminal(["read", SMALL])
        self.assertEqual((status, err), (OK, ""))
        self.assertIn("\033[", out)
        plain = re.sub("\033\\[[0-9;]*m", "", out)
        self.assertNotIn("\033", plain)
        self.assertEqual(plain, run("read", SMALL).out)

    def test_no_colours(self):
        for args, env in ((["--no-color"], environment()), ([], environment(NO_COLOR="1")), ([], environment(TERM="dumb"))):
            status, out, err = on_terminal(["read", SMALL, *args], env)
            self.assertEqual((status, err), (OK, ""))
            self.assertNotIn("\033", out)
        self.assertIn("\033", on_terminal(["read", SMALL], environment(NO_COLOR=""))[1])

    def test_width_of_the_terminal(self):
        for columns, most in ((60, 60), (90, 90), (200, 100)):
            out = on_terminal(["read", SMALL, "--no-color"], columns=columns)[1]
            self.assertLessEqual(max(map(len, out.splitlines())), most)
            self.assertGreater(max(map(len, out.splitlines())), most - 25)


class TestLongRead(Case):
    """Needs a file that takes more than half a second; it is made as long as this machine and build need."""

    EVENT = (b'{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":%d.000,"dur":1.000,'
             b'"args":{"External id":1,"Sequence number":2,"Fwd thread id":0}},\n')

    def long_file(self, megabytes):
        path = self.path("long.json")
        block = b"".join(self.EVENT % (10 * i) for i in range(20000))
        with open(path, "wb") as f:
            f.write(b'{"traceEvents":[\n')
            for _ in range(megabytes * 1000000 // len(block)):
                f.write(block)
            f.write(b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1.0,"dur":2.0,"args":{"device":0,"stream":7}}]}\n')
        return path

    def watch(self, args=(), until=None, env=None, **kw):
        """Runs `read` on longer and longer files, until it takes a second. (status, out, err)"""
        for megabytes in (100, 300, 900):
            path = self.long_file(megabytes)
            begin = time.monotonic()
            result = on_terminal(["read", "--max-memory=4G", "--threads=1", *args, path], env, until=until, **kw)
            if time.monotonic() - begin > 1.2 or "reading" in result[2]:
                return result
        self.skipTest("this machine reads 900 MB in less than a second")

    def test_progress(self):
        status, out, err = self.watch()
        self.assertEqual(status, OK)
        self.assertIn("Trust", out)
        self.assertNotIn("reading", out)
        self.assertRegex(err, r"\r.*reading long\.json +\d+ %, [\d.]+ [kMG]B/s, \d+ (s|min) left")
        self.assertTrue(err.endswith("\r\033[K"), "the line must be erased at the end")
        for line in err.split("\r"):
            self.assertLess(len(line.replace("\033[K", "")), 80)

    def test_no_progress_when_quiet_or_dumb(self):
        if "reading" not in self.watch()[2]:
            self.skipTest("no progress to be silenced")
        for args, env in ((["--quiet"], environment()), ([], environment(TERM="dumb"))):
            status, out, err = on_terminal(["read", "--max-memory=4G", "--threads=1", *args, self.path("long.json")], env)
            self.assertEqual((status, err), (OK, ""))

    def test_no_progress_without_a_terminal(self):
        p = run("read", self.long_file(100))
        self.assertEqual((p.returncode, p.err), (OK, ""))

    def test_interrupt(self):
        status, out, err = self.watch(until=lambda err: signal.SIGINT if b"reading" in err else 0)
        self.assertEqual(status, -signal.SIGINT)
        self.assertIn("truncated", out)
        self.assertIn("interrupted", err)

    def test_ignored_interrupt_stays_ignored(self):
        path = self.long_file(50)
        p = subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$@"', "sh", GPUWHY, "read", path], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=environment())
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=110)
        self.assertEqual((p.returncode, err), (OK, b""))
        self.assertNotIn(b"truncated", out)


class TestBadFiles(Case):
    """Each gives one clear line and status 3, or a report that names its loss."""

    def salvaged(self, path, loss):
        p = run("read", path, "--json", "-")
        self.assertEqual(p.returncode, OK, p.err)
        r = json.loads(p.out)
        self.assertIn(loss, [x["id"] for x in r["trust"]["losses"]])
        return r

    def test_missing(self):
        self.refused(run("read", self.path("missing.json")), INPUT, "missing.json")

    def test_folder(self):
        self.refused(run("read", self.dir), INPUT, self.dir)

    def test_no_permission(self):
        if os.geteuid() == 0:
            self.skipTest("root may read everything")
        path = self.write("secret.json", b"{}")
        os.chmod(path, 0)
        self.refused(run("read", path), INPUT, "secret.json")

    def test_no_trace(self):
        for name, data in (("empty.json", b""), ("blank.json", b" \n\t "), ("text.txt", b"hello\n"), ("null.json", b"null"),
                           ("number.json", b"42"), ("zeros.bin", bytes(100000)), ("noise.bin", bytes(range(256)) * 100),
                           ("elf", content(GPUWHY)[:4096]), ("page.html", b"<!doctype html><p>x"),
                           ("empty.json.gz", b""), ("gz-of-nothing.json.gz", gzip.compress(b"")),
                           ("gz-of-text.gz", gzip.compress(b"hello\n" * 1000)), ("broken.json.gz", b"\x1f\x8b\x08\x00garbage")):
            with self.subTest(name):
                self.refused(run("read", self.write(name, data)), INPUT, name)

    def test_trace_without_gpu(self):
        r = self.salvaged(self.write("cpu.json", b'{"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a",'
                                     b'"pid":1,"tid":1,"ts":1,"dur":2}]}'), "no-gpu")
        self.assertFalse(r["trust"]["complete"])
        self.assertNotEqual(r["verdict"]["finding"], "none")

    def test_cut_short(self):
        whole = gzip.decompress(content(SYNC))
        r = self.salvaged(self.write("cut.json", whole[: len(whole) // 2]), "truncated")
        self.assertFalse(r["trust"]["complete"])
        self.assertGreater(r["devices"][0]["whole"]["ops"], 100)

    def test_cut_gzip(self):
        data = content(SYNC)
        p = run("read", self.write("cut.json.gz", data[: len(data) // 2]), "--json", "-")
        self.assertEqual(p.returncode, OK, p.err)
        r = json.loads(p.out)
        self.assertFalse(r["trust"]["complete"])
        self.assertGreater(r["devices"][0]["whole"]["ops"], 0)

    def test_damaged_gzip(self):
        data = bytearray(content(SYNC))
        data[len(data) // 2] ^= 0xFF
        p = run("read", self.write("damaged.json.gz", bytes(data)), "--json", "-")
        self.assertEqual(p.returncode, OK, p.err)
        self.assertFalse(json.loads(p.out)["trust"]["complete"])

    def test_wrong_name(self):
        """The content counts, not the name."""
        data = content(SMALL)
        self.assertEqual(run("read", self.write("t.json", data)).returncode, OK)
        self.assertEqual(run("read", self.write("t.json.gz", gzip.decompress(data))).returncode, OK)
        self.assertEqual(run("read", self.write("no-extension", data)).returncode, OK)

    def test_memory_limit(self):
        r = self.salvaged_memory()
        self.assertFalse(r["trust"]["complete"])

    def salvaged_memory(self):
        p = run("read", "--max-memory=1M", SYNC, "--json", "-")
        self.assertEqual(p.returncode, OK, p.err)
        r = json.loads(p.out)
        self.assertIn("memory-cap", [x["id"] for x in r["trust"]["losses"]])
        return r

    def test_names_with_escapes(self):
        event = ('{"ph":"X","cat":"kernel","name":"\\u001b[31mred\\u001b]0;title\\u0007 </script>","pid":0,"tid":7,"ts":%d,'
                 '"dur":5,"args":{"device":0,"stream":7,"correlation":%d}},')
        path = self.write("esc.json", ('{"schemaVersion":1,"traceEvents":[' + "".join(event % (10 * i, i) for i in range(50))
                                       + "{}]}").encode())
        for args in (("--all",), ("--json", "-")):
            p = run("read", path, *args)
            self.assertEqual(p.returncode, OK, p.err)
            self.assertNotIn("\033", p.out + p.err)

    def test_fifo(self):
        """Cannot be read twice, so it is refused or read, but never hangs."""
        path = self.path("fifo")
        os.mkfifo(path)
        p = subprocess.Popen([GPUWHY, "read", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        deadline = time.monotonic() + 5
        while p.poll() is None and time.monotonic() < deadline:
            try:
                fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.05)
                continue
            os.set_blocking(fd, True)
            try:
                os.write(fd, gzip.decompress(content(SMALL))[:30000])
            except BrokenPipeError:
                pass
            os.close(fd)
        out, err = p.communicate(timeout=30)
        self.assertIn(p.returncode, (OK, INPUT), err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
