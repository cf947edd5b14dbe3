"""Pages for the tests of HTML reports: made once, from samples, recorded jobs, hand-made reports and hostile names."""
import json
import os
import subprocess

# What a name in a trace may try. Each must come out as text.
HOSTILE = ['</script><img src=x onerror="window.pwned=1">', '<!--<script>window.pwned=2</script>', "'\"><svg onload=window.pwned=3>",
           "javascript:window.pwned=4", "\u2028\u2029${window.pwned=5}", "\u202egnp.exe\x1b[31m", "a" * 5000]


def hostile_trace(path):
    """A job of six steps; every name that a trace can bring is hostile."""
    events, corr = [], 1
    for step in range(6):
        t0 = step * 10000
        events.append(dict(ph="X", cat="user_annotation", name=f"ProfilerStep#{step}", pid=1, tid=1, ts=t0, dur=9900))
        for i in range(12):
            name = HOSTILE[i % len(HOSTILE)]
            t = t0 + 100 + i * 800
            events.append(dict(ph="X", cat="cpu_op", name="op " + name, pid=1, tid=1, ts=t, dur=600))
            events.append(dict(ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=1, ts=t + 10, dur=5,
                               args={"correlation": corr}))
            events.append(dict(ph="X", cat="kernel", name=name, pid=0, tid=7, ts=t + 30, dur=100,
                               args={"correlation": corr, "device": 0, "stream": 7, "grid": [64, 1, 1], "block": [128, 1, 1]}))
            corr += 1
        events.append(dict(ph="X", cat="cuda_runtime", name="cudaStreamSynchronize", pid=1, tid=1, ts=t0 + 9750, dur=90,
                           args={"correlation": corr}))
        corr += 1
    with open(path, "w") as f:
        json.dump({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": HOSTILE[0], "numSms": 132}],
                   "traceEvents": events}, f)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def run(cmd, **kw):
    return subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **kw)


def make(gpuwhy, samples, root, folder):
    """{name: path} of pages in `folder`."""
    pages = {}

    def page(name, cmd):
        path = os.path.join(folder, name + ".html")
        p = run([gpuwhy] + cmd + ["--quiet", "--html", path])
        if p.returncode not in (0, 1) or not os.path.exists(path):
            raise SystemExit(f"{cmd}: status {p.returncode}: {p.stderr.decode()}")
        pages[name] = path

    trace = lambda n: os.path.join(root, "tests/traces", n + ".json.gz")
    sample = lambda n: os.path.join(root, "samples", n + ".json.gz")
    for n in ("item_sync", "pageable", "embed"):
        page(n, ["read", sample(n)])
    for n in ("launch_bound_infer", "slow_read", "recompile", "alloc_thrash", "healthy_conv"):
        page(n, ["read", trace(n)])
    hostile = os.path.join(folder, "hostile.json")
    hostile_trace(hostile)
    page("hostile", ["read", hostile])
    page("diff", ["diff", sample("item_sync"), sample("item_sync.fix"), "--fail-if", "step>+5%"])
    check = os.path.join(root, "tests/fixtures/check/captures")
    captures = sorted(os.listdir(check)) if os.path.isdir(check) else []
    if captures and b"check" in run([gpuwhy, "--help"]).stdout:
        page("check", ["check", os.path.join(check, captures[0])])
    for n in ("hostile", "two-devices", "many-devices", "many-findings", "no-gpu", "unknown"):
        path = os.path.join(folder, f"made-{n}.html")
        with open(path, "wb") as f:
            subprocess.run([samples, n, "html"], stdout=f, check=True, timeout=60)
        pages["made-" + n] = path
    return pages
