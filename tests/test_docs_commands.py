#!/usr/bin/env python3
"""Runs every command that README*.md and docs/*.md show in code blocks, and fails when one of them fails.

A block that cannot run here stands after a line `<!-- run: skip, REASON -->`. The files that the commands name are made of
samples in an empty folder. Blocks of Python must compile.

usage: test_docs_commands.py GPUWHY SOURCE_DIR
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

GPUWHY, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
STARTS = r"(\$ )?(OUT=\S+ )?(build/)?(gpuwhy|make|python3?|scripts/\S+|ctest|cmake|nvidia-smi|nsys|ncu|kill|curl|pip|export|for) ?"
# Words that stand for something of the reader's.
WORDS = {"BEFORE": "before.json.gz", "AFTER": "after.json.gz", "FOLDER": "ranks", "A": "before.json.gz", "B": "after.json.gz",
         "/data/set": "data", "/data/imagenet": "data", "/host": "/", "/opt/env/bin/python": sys.executable, "/tmp/job": "job",
         "RECORD": "rec", "FILE": "trace.json.gz", "rank0.json.gz": "ranks/rank0.json.gz", "rank1.json.gz": "ranks/rank1.json.gz"}


def blocks(text):
    """(line number, marker, language, lines) of each code block, fenced or indented by four."""
    lines, i, marker = text.split("\n"), 0, ""
    while i < len(lines):
        line = lines[i]
        m = re.match(r"<!-- run: (.*) -->$", line)
        if m:
            marker = m.group(1)
        elif line.startswith("```"):
            j = i + 1
            while j < len(lines) and not lines[j].startswith("```"):
                j += 1
            yield i + 1, marker, line[3:].strip(), lines[i + 1 : j]
            marker, i = "", j
        elif line.startswith("    ") and line.strip() and (i == 0 or not lines[i - 1].strip() or lines[i - 1].startswith("<!--")):
            j = i
            while j < len(lines) and (lines[j].startswith("    ") or not lines[j].strip()):
                j += 1
            yield i + 1, marker, "", [x[4:] for x in lines[i:j]]
            marker, i = "", j - 1
        elif line.strip():
            marker = ""
        i += 1


def commands(lines):
    """The commands of a block, without what explains them. In a block with `$` prompts the rest is output."""
    prompts = any(x.startswith("$ ") for x in lines)
    for x in lines:
        if re.match(STARTS, x) and (not prompts or x.startswith("$ ")):
            x = re.sub(r"^\$ ", "", x)
            x = re.sub(r"(\s+# .*|\s{2,}.*)$", "", x)  # two blanks and more part a command from a remark
            yield re.sub(r" \.\.\.$", "", x)


def substitute(command):
    return " ".join(WORDS.get(w, w) for w in command.split(" "))


def sandbox(folder):
    def copy(sample, *names):
        for n in names:
            os.makedirs(os.path.dirname(os.path.join(folder, n)) or folder, exist_ok=True)
            shutil.copy(os.path.join(SOURCE, "samples", sample), os.path.join(folder, n))

    copy("item_sync.json.gz", "trace.json.gz", "before.json.gz", "main.json.gz")
    copy("item_sync.fix.json.gz", "after.json.gz", "pull_request.json.gz")
    for d in ("samples", "tests", "docs", "scripts", "python"):
        os.symlink(os.path.join(SOURCE, d), os.path.join(folder, d))
    os.makedirs(folder + "/bin")
    os.makedirs(folder + "/build")
    os.makedirs(folder + "/data")
    for n in ("bin/gpuwhy", "build/gpuwhy"):
        os.symlink(GPUWHY, os.path.join(folder, n))
    os.symlink(sys.executable, folder + "/bin/python")
    with open(folder + "/data/sample.bin", "wb") as f:
        f.write(os.urandom(8 << 20))
    with open(folder + "/train.py", "w") as f:
        f.write("import time\nfor step in range(20):\n    time.sleep(0.02)\n    print('step', step, 50.0, 'it/s', flush=True)\n")
    env = dict(os.environ, PATH=folder + "/bin:" + os.environ["PATH"], PYTHONDONTWRITEBYTECODE="1")
    env.pop("LC_ALL", None)

    def run(*args):
        return subprocess.run(args, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    run("gpuwhy", "read", "--quiet", "--json", "main.json", "main.json.gz")
    run("python", os.path.join(SOURCE, "tests/job_sim.py"), folder + "/ranks", "2")
    for i, f in enumerate(sorted(glob.glob(folder + "/ranks/*.json*"))):
        os.rename(f, f"{folder}/ranks/rank{i}.json.gz" if f.endswith(".gz") else f"{folder}/ranks/rank{i}.json")
    for f in glob.glob(folder + "/ranks/*.json"):
        subprocess.run(["gzip", f], check=True)
    os.makedirs(folder + "/node7")
    for name in ("node7.txt", "node7/smi.txt"):
        with open(os.path.join(folder, name), "w") as f:
            f.write("               total        used        free      shared  buff/cache   available\n"
                    "Mem:        16000000     4000000     8000000      100000     4000000    11000000\nSwap:              0           0           0\n")
    if "run" in run("gpuwhy", "--help").stdout.decode():
        run("gpuwhy", "run", "--no-report", "-o", "rec", "--", "python", "train.py")
    return env


def main():
    failed, ran, skipped = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        env = sandbox(folder)
        known = subprocess.run([GPUWHY, "--help"], stdout=subprocess.PIPE, env=dict(env, LC_ALL="C")).stdout.decode()
        known = set(re.findall(r"^  (\w[\w-]*)  ", known.split("Commands:")[1].split("Examples:")[0], re.M)) | {"--lang", "--help", "--version"}
        done = {}
        for path in sorted(glob.glob(SOURCE + "/docs/*.md") + glob.glob(SOURCE + "/README*.md")):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            for line, marker, language, lines in blocks(text):
                where = f"{os.path.relpath(path, SOURCE)}:{line}"
                if marker.startswith("skip,"):
                    skipped += len(list(commands(lines)))
                    continue
                if language == "python":
                    try:
                        compile("\n".join(lines), where, "exec")
                    except SyntaxError as e:
                        failed.append(f"{where}: {e}")
                    continue
                for c in commands(lines):
                    words = c.split()
                    if words[0].endswith("gpuwhy") and len(words) > 1 and words[1] not in known:
                        if words[1] in ("run", "check", "sweep", "top", "serve", "attach"):
                            skipped += 1  # a part that this build leaves out
                            continue
                    command = substitute(c)
                    if command not in done:
                        ran += 1
                        try:
                            p = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                               stderr=subprocess.STDOUT, timeout=120)
                            good = p.returncode == 0 or (p.returncode == 1 and "--fail-if" in command)
                            done[command] = None if good else f"status {p.returncode}: {p.stdout.decode('utf-8', 'replace')[-600:]}"
                        except subprocess.TimeoutExpired:
                            done[command] = "took more than two minutes"
                    if done[command]:
                        failed.append(f"{where}: {command}\n    {done[command]}")
    for f in failed:
        print(f)
    print(f"{ran} commands ran, {skipped} skipped by their marks, {len(failed)} failed")
    if ran < 10:
        print("too few commands were found; has the form of the documents changed?")
    return 1 if failed or ran < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
