"""Runs the functions of a test that are called case_<name>: a line for each, and the exit status of the whole test.

    sys.exit(runner.run(runner.cases(globals(), sys.argv[2:])))

A case fails by an exception, and is left out by runner.Skip("why"). What it returns, if anything, is closed. Exit status:
0 all that ran passed, 1 one failed or there was none, 77 all were left out (how CTest is told that a test was skipped).
"""
import concurrent.futures
import contextlib
import subprocess
import sys
import time
import traceback


class Skip(Exception):
    """What the case needs is not here."""


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of `size` ("512k") on an existing folder; the case is left out where we may not mount."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        raise Skip("not allowed to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def cases(scope, names=()):
    """The cases of a module's globals(), as (name, function); only those of `names` if there are any."""
    found = {n[5:]: f for n, f in scope.items() if n.startswith("case_")}
    unknown = [n for n in names if n not in found]
    if unknown:
        sys.exit("no such case: %s\nthere are: %s" % (" ".join(unknown), " ".join(found)))
    return [(n, f) for n, f in found.items() if not names or n in names]


def attempt(case):
    """Runs one case: "ok", "skip" or "FAIL", and what to say."""
    name, function = case
    began = time.monotonic()
    try:
        result = function()
        if result is not None:
            result.close()
        return "ok", "%s (%.1f s)" % (name, time.monotonic() - began)
    except Skip as e:
        return "skip", "%s: %s" % (name, e)
    except Exception as e:  # pylint: disable=broad-except
        where = traceback.extract_tb(e.__traceback__)[1:2] # in the case itself
        return "FAIL", "%s, line %s: %s: %s" % (name, where[0].lineno if where else "?", type(e).__name__, str(e)[:3000])


def run(todo, threads=1):
    """Runs (name, function) pairs, `threads` of them at a time."""
    count = {"ok": 0, "skip": 0, "FAIL": 0}
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for how, text in (pool.map if threads > 1 else map)(attempt, todo):
            count[how] += 1
            print("%-4s %s" % (how, text), flush=True)
    if count["FAIL"] or not todo:
        return 1
    return 0 if count["ok"] else 77
