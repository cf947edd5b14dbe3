#!/usr/bin/env python3
"""A reader of Chinese meets no English sentence: reports, checks, comparisons, help, pages and errors in zh_CN are searched for
runs of English words. Also: the catalogue is complete, and columns hold with wide characters.

usage: test_zh_cn.py GPUWHY SOURCE_DIR
"""
import glob
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import unittest

GPUWHY, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SAMPLES = sorted(glob.glob(SOURCE + "/samples/*.json.gz"))
TRACES = sorted(glob.glob(SOURCE + "/tests/traces/*.json.gz"))
COMMANDS = None

# Names of things that are several words.
NAMES = re.compile(
    r"Nsight Systems|Nsight Compute|Windows Subsystem for Linux|Weights & Biases|fabric manager|root complex|"
    r"NVIDIA [A-Z][\w -]*|Tesla \w+|GeForce [\w ]+|Quadro [\w ]+|Intel[\w() -]+|AMD [\w -]+|Debian[\w/ ()-]+|Ubuntu[\w ./()-]+|"
    r"stream \d+|Memcpy \w+|Memset|Iteration|Context Sync|Stream Sync|Event Sync")


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG")) and k not in ("NO_COLOR", "LOCPATH")}
    env.update(more)
    return env


def run(*args, **more):
    p = subprocess.run([GPUWHY, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300,
                       env=environment(**more))
    p.out, p.err = p.stdout.decode("utf-8"), p.stderr.decode("utf-8")
    return p


def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in line)


def english(text):
    """Runs of three English words or more that are neither code, commands nor names."""
    found = []
    text = re.sub(r"`[^`]*`", "`", text)
    for line in text.splitlines():
        if re.match(r" {6,}\S", line) and not re.search(r"[\u4e00-\u9fff]", line) and re.search(r"[=()/$#]|--|^ +[a-z-]+ -|^ +(from .* import|for .*:$)", line):
            continue  # code to copy
        line = re.sub(r"'[^']*'|\"[^\"]*\"", "'", line)
        line = NAMES.sub("@", line)
        for m in re.finditer(r"(?:(?<![\w/.=:$-])[A-Za-z][a-z']+,? ){2,}[A-Za-z][a-z']+(?![\w/.=:(-])", line):
            if not re.match(r"(gpuwhy|nvidia-smi|sudo|docker|python|pip|apt|nsys|ncu|systemctl|git|dmesg|ulimit|conda)\b", m.group(0)):
                found.append(m.group(0) + "   | " + line.strip())
    return found


class Case(unittest.TestCase):
    maxDiff = None

    def chinese(self, p, *status):
        self.assertIn(p.returncode, status or (0,), p.err)
        text = p.out + p.err
        self.assertRegex(text, r"[\u4e00-\u9fff]")
        self.assertEqual(english(text), [])
        return text


class TestChinese(Case):
    def test_the_heuristic_can_fail(self):
        self.assertTrue(english("  seen     the host waits for copies in each step"))
        self.assertFalse(english("  检查     `this is code that may be English` 之后"))

    def test_reports(self):
        for path in SAMPLES + TRACES:
            for more in ((), ("--all",)):
                with self.subTest(path=os.path.basename(path), more=more):
                    text = self.chinese(run("read", "--lang", "zh_CN", "--quiet", "--width", "72", *more, path))
                    for line in text.splitlines():
                        if not re.search(r"[\w:<>`/=]{40,}", line):
                            self.assertLessEqual(width(line), 72, line)

    def test_bars_stand_in_one_column(self):
        text = run("read", "--lang", "zh_CN", SAMPLES[0]).out
        ends = {width(m.group(1)) for m in re.finditer(r"(?m)^((?:计算|通信|拷贝|空闲) .*\d) %$", text)}
        starts = {width(m.group(1)) for m in re.finditer(r"(?m)^((?:计算|通信|拷贝|空闲) +)[^ ]", text)}
        self.assertEqual((len(ends), len(starts)), (1, 1), text)
        labels = {width(m.group(1)) for m in re.finditer(r"(?m)^(  (?:依据|位置|单步|做法|验证|代价) +)\S", text)}
        self.assertEqual(len(labels), 1, text)

    def test_columns_of_tables(self):
        def ends(line):  # where the cells end; two blanks part cells
            return [width(line[: m.end()]) for m in re.finditer(r"\S+( \S+)*", line)]

        with tempfile.TemporaryDirectory() as d:
            subprocess.run([sys.executable, SOURCE + "/tests/job_sim.py", d + "/job", "3"], check=True, stdout=subprocess.DEVNULL)
            text = self.chinese(run("read", "--lang", "zh_CN", d + "/job"))
            table = re.search(r"(?m)^ rank .*\n(?:  +\d+ .*\n)+", text).group(0).splitlines()
            for row in table[1:]:
                self.assertEqual(ends(row)[1:7], ends(table[0])[1:7], text)
        sync = SOURCE + "/samples/item_sync.json.gz"
        text = run("diff", "--lang", "zh_CN", sync, sync.replace(".json", ".fix.json")).out
        table = re.search(r"(?m)^一步的时间.*\n(?:  +\S.*\n)+", text).group(0).splitlines()
        for row in table[1:]:
            self.assertEqual(ends(row.replace(" *", ""))[-3:], ends(table[0])[-3:], text)

    def test_pages_for_browsers(self):
        sync = SOURCE + "/samples/item_sync.json.gz"
        calls = [("read", "--html", "-", path) for path in SAMPLES + TRACES[:6]]
        calls.append(("diff", "--html", "-", sync, sync.replace(".json", ".fix.json")))
        if "check" in commands():
            calls.append(("check", "--html", "-"))
        for args in calls:
            with self.subTest(args=args):
                p = run(*args, "--lang", "zh_CN", "--quiet")
                if p.returncode == 2 and "--html" in p.err:
                    self.skipTest("this build writes no pages")
                self.assertEqual(p.returncode, 0, p.err)
                self.assertRegex(p.out, r"<html[^>]* lang=\"zh-CN\"")
                text = re.sub(r"(?s)<(script|style|pre|code)\b.*?</\1>", "", p.out)
                self.assertEqual(english(html.unescape(re.sub(r"<[^>]*>", "\n", text))), [])
                for label in re.findall(r'(?:aria-label|title|alt)="([^"]*)"', text):
                    self.assertEqual(english(html.unescape(label)), [])

    def test_comparison(self):
        sync = SOURCE + "/samples/item_sync.json.gz"
        self.chinese(run("diff", "--lang=zh", "--all", sync, sync.replace(".json", ".fix.json")))
        self.chinese(run("diff", "--lang=zh", sync, SAMPLES[0], "--fail-if", "step>+1%"), 0, 1)

    def test_check(self):
        if "check" in commands():
            self.chinese(run("check", "--lang", "zh_CN", "--all"))
            for path in sorted(glob.glob(SOURCE + "/tests/fixtures/check/*")):
                with self.subTest(path=path):
                    p = run("check", "--lang", "zh_CN", "--all", path)
                    if p.returncode == 0:
                        self.chinese(p)

    def test_recording(self):
        if "run" in commands():
            with tempfile.TemporaryDirectory() as d:
                self.chinese(run("run", "--lang", "zh_CN", "-o", d + "/rec", "--", "sleep", "0.3"))
                self.chinese(run("read", "--lang", "zh_CN", "--all", d + "/rec"))
                self.chinese(run("check", "--lang", "zh_CN", "--all", d + "/rec"), 0, 3)
                self.chinese(run("run", "--lang", "zh_CN", "-o", d + "/rec", "--", "true"), 125)
                self.chinese(run("run", "--lang", "zh_CN", "-o", d + "/rec2", "--", d + "/no-such-program"), 127)

    def test_help(self):
        for command in commands():
            with self.subTest(command=command):
                text = self.chinese(run(command, "--help", "--lang", "zh_CN"))
                self.assertEqual(english(run(command, "--usage", "--lang", "zh_CN").out), [])
                for line in text.split("\n示例：")[0].splitlines():
                    self.assertLessEqual(width(line), 79, line)
        self.chinese(run("--lang", "zh_CN", "--help"))
        self.chinese(run(LANG="zh_CN.UTF-8"), 2)

    def test_pages(self):
        ids = re.findall(r"(?m)^  ([a-z][\w-]+)  ", run("explain").out) + ["none"]
        self.assertGreater(len(ids), 50)
        self.chinese(run("explain", "--lang", "zh_CN"))
        for i in ids:
            with self.subTest(id=i):
                for more in ((), ("--markdown",)):
                    self.chinese(run("explain", i, "--lang", "zh_CN", *more))

    def test_errors(self):
        for args in (("read",), ("read", "/no/such/file"), ("read", "/dev/null"), ("read", "/"), ("read", "--bogus", "x"),
                     ("read", "--width=x", "x"), ("raed",), ("diff", "a"), ("explain", "zzz"), ("explain", "host-snyc"),
                     ("export", GPUWHY), ("read", GPUWHY), ("read", __file__), ("read", "--json", "/no/such/x", SAMPLES[0]), ("zzz",)):
            with self.subTest(args=args):
                p = run("--lang", "zh_CN", *args)
                self.assertNotEqual(p.returncode, 0)
                self.assertRegex(p.err, r"[\u4e00-\u9fff]")
                self.assertEqual(english(p.err.replace(GPUWHY, "")), [], p.err)


def commands():
    top = run("--help", LC_ALL="C").out
    return re.findall(r"^  (\w[\w-]*)  ", top.split("Commands:")[1].split("Examples:")[0], re.M)


class TestLanguage(Case):
    """Which language, by option and environment. The machine may have no locale but C."""

    def first(self, *args, **env):
        return run(*args, "explain", "none", **env).out.split("\n")[0]

    def test_choice(self):
        zh, en = "none: 这个任务没有问题", "none: this job is fine"
        for env, want in (({}, en), ({"LANG": "C"}, en), ({"LANG": "zh_CN.UTF-8"}, zh), ({"LC_ALL": "zh_CN.utf8"}, zh),
                          ({"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "en_US.UTF-8"}, zh), ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, en),
                          ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, zh), ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en"}, en),
                          ({"LANG": "C.UTF-8", "LANGUAGE": "zh_CN"}, en), ({"LANG": "zh_TW.UTF-8"}, en),
                          ({"LANG": "zh_CN.GB18030"}, en), ({"LANG": "de_DE.UTF-8"}, en)):
            for more in ({}, {"LOCPATH": "/nonexistent"}):  # no locales at all
                with self.subTest(env=env, more=more):
                    self.assertEqual(self.first(**env, **more), want)
        for lang in ("zh_CN", "zh", "zh-CN", "zh_CN.UTF-8", "zh_Hans", "ZH_cn"):
            for env in ({}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "LOCPATH": "/nonexistent"}, {"LANG": "zh_CN.GB18030"}):
                with self.subTest(lang=lang, env=env):
                    self.assertEqual(self.first("--lang", lang, **env), zh)
                    self.assertEqual(self.first("--lang=" + lang, **env), zh)
        self.assertEqual(self.first("--lang=en", LANG="zh_CN.UTF-8"), en)
        p = run("--lang=fr", "explain")
        self.assertEqual((p.returncode, p.out), (2, ""))
        self.assertIn("zh_CN", p.err)
        self.assertEqual(run("read", "--lang").returncode, 2)

    def test_a_job_keeps_its_own_lang(self):
        if "run" in commands():
            p = run("run", "--lang=zh", "--no-report", "-o", "/dev/null/x", "--", "echo", "--lang", "fr")
            self.assertNotIn("fr", p.err)

    def test_a_damaged_catalogue_is_english(self):
        with Moved() as m:
            with open(m.mo, "rb") as f:
                good = f.read()
            self.assertEqual(m.first(), "none: 这个任务没有问题")
            for bad in (b"", b"x" * 100, good[:1000], good[: len(good) // 2], good[:12] + b"\xff" * 8 + good[20:],
                        good[:8] + b"\xff\xff\xff\x7f" + good[12:], good[:28] + b"\xff" * 4000 + good[4028:]):
                with open(m.mo, "wb") as f:
                    f.write(bad)
                self.assertEqual(m.first(), "none: this job is fine")
            os.remove(m.mo)
            self.assertEqual(m.first(), "none: this job is fine")


class Moved:
    """A copy of the program as it is installed: PREFIX/bin and PREFIX/share/locale."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory()
        os.makedirs(self.dir.name + "/bin")
        self.mo = self.dir.name + "/share/locale/zh_CN/LC_MESSAGES/gpuwhy.mo"
        os.makedirs(os.path.dirname(self.mo))
        shutil.copy(GPUWHY, self.dir.name + "/bin/gpuwhy")
        shutil.copy(os.path.dirname(GPUWHY) + "/locale/zh_CN/LC_MESSAGES/gpuwhy.mo", self.mo)
        return self

    def first(self):
        p = subprocess.run([self.dir.name + "/bin/gpuwhy", "--lang", "zh_CN", "explain", "none"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, env=environment())
        assert p.returncode == 0, p
        return p.stdout.decode().split("\n")[0]

    def __exit__(self, *_):
        self.dir.cleanup()


class TestCatalogue(Case):
    def test_complete(self):
        for tool in ("xgettext", "msgmerge", "msgattrib", "msgfmt", "perl"):
            if not shutil.which(tool):
                self.skipTest(tool + " is not installed")
        p = subprocess.run([SOURCE + "/scripts/update-po", "--check"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(p.returncode, 0, p.stdout.decode())


if __name__ == "__main__":
    if not os.path.exists(os.path.dirname(GPUWHY) + "/locale/zh_CN/LC_MESSAGES/gpuwhy.mo"):
        print("skipped: built without translations")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
