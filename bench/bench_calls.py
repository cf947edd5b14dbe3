#!/usr/bin/env python3
"""What counting the job's calls of CUDA costs a launch: the same loop over the fake runtime of the tests, alone and under `gpuwhy run`, in turns.

usage: bench_calls.py BUILD_DIR [--rounds N] [--launches PER_SECOND]

No GPU: a launch of the fake runtime takes a fraction of a microsecond, so that some nanoseconds show. The best of many short blocks counts. In
the job are only the counting library and its thread (no CUPTI, as in a job that is held); the recorder samples beside it as ever.
"""
import argparse
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile


BLOCKS, CALLS = 100, 20000  # as in tests/fake_job.c


def counted(fakes, record):
    """Launches that the library counted."""
    files = glob.glob(os.path.join(record, "cuda-*.gwr"))
    text = subprocess.run([os.path.join(fakes, "record_dump"), files[0]], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout if files else ""
    found = re.search(r"called_launch=(\d+)", text)
    return int(found.group(1)) if found else 0


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    p.add_argument("build")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--launches", type=float, default=35000, help="a second, of a job bound by its launches (default: an H200 host's)")
    a = p.parse_args()
    build, fakes = os.path.abspath(a.build), os.path.join(os.path.abspath(a.build), "fakes")
    env = dict(os.environ, LD_LIBRARY_PATH=fakes, FAKE_CUPTI_LIB=os.path.join(fakes, "libcupti.so.13"), GPUWHY_NVML=os.path.join(fakes, "libnvidia-ml.so.1"))
    env.pop("CUDA_INJECTION64_PATH", None)
    job = [os.path.join(fakes, "fake_job"), "rtbusy", "4000", "rttime", str(BLOCKS)]  # its table is found, and filled, in the first three seconds
    took = {"alone": [], "counted": []}
    with tempfile.TemporaryDirectory() as folder:
        for n in range(a.rounds):
            run = [os.path.join(build, "gpuwhy"), "run", "-o", os.path.join(folder, f"rec{n}"), "--no-report", "--no-pm", "--"]
            for mode, cmd in (("alone", job), ("counted", run + job)):
                out = subprocess.run(cmd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120, check=False)
                found = re.search(r"launch ([0-9.]+) ns", out.stdout)
                if not found:
                    sys.exit(f"{mode}: no time: {out.stdout}{out.stderr}")
                took[mode].append(float(found.group(1)))
            if counted(fakes, os.path.join(folder, f"rec{n}")) < BLOCKS * CALLS:
                sys.exit("the launches were not counted: the comparison would say nothing")
    more = [c - b for b, c in zip(took["alone"], took["counted"])]
    for mode, v in took.items():
        print(f"{mode:8} {statistics.median(v):7.1f} ns a launch [{min(v):.1f}..{max(v):.1f}]")
    ns = statistics.median(more)
    print(f"counting {ns:7.1f} ns a launch [{min(more):.1f}..{max(more):.1f}]: {ns * a.launches / 1e7:.2f} % of the time at {a.launches:.0f} launches a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
