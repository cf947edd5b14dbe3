#!/bin/bash
# Builds gpuwhy on a machine with an NVIDIA GPU and tries `gpuwhy check` on it, next to nvidia-smi and PyTorch.
#
#   OUT=DIR scripts/gpu_check.sh        about 3 minutes; changes no clock, limit or mode
#
# Everything goes to $OUT as it comes; a short table is printed last.
set -u
cd "$(dirname "$0")/.."
: "${OUT:?set OUT to a folder}"
mkdir -p "$OUT"
BUILD=${BUILD:-build-gpu}
PY=${PYTHON:-python3}
say() { echo "== $*"; }

say "build"
{ cmake -S . -B "$BUILD" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGW_WITH_TESTS=OFF &&
  cmake --build "$BUILD" -j "$(nproc)" --target gpuwhy; } >"$OUT/build.log" 2>&1 || { tail -30 "$OUT/build.log"; exit 1; }
G=$(realpath "$BUILD/gpuwhy")

table=$OUT/table.txt
: >"$table"
# run NAME SECONDS ARGS...: text and JSON, status and time; the JSON must parse and keep its promises.
run() {
    local name=$1 limit=$2 begin end rc
    shift 2
    begin=$(date +%s.%N)
    timeout "$limit" "$G" check "$@" --json "$OUT/$name.json" >"$OUT/$name.txt" 2>"$OUT/$name.err"
    rc=$?
    end=$(date +%s.%N)
    "$PY" - "$OUT/$name.json" "$name" "$rc" "$begin" "$end" <<'P' | tee -a "$table"
import json, sys
path, name, rc, begin, end = sys.argv[1:]
try:
    j = json.load(open(path))
    assert j["schema"] == "gpuwhy.check/1" and sum(j["summary"].values()) == len(j["checks"])
    said = " ".join(f'{k}={v}' for k, v in j["summary"].items())
except Exception as e:
    said = f"NO JSON: {e}"
print(f"{name:14} status {rc} {float(end) - float(begin):6.1f} s  {said}")
P
}

nvidia-smi -q >"$OUT/smi-q.txt" 2>&1
nvidia-smi -q -x >"$OUT/smi-q.xml" 2>&1
nvidia-smi >"$OUT/smi.txt" 2>&1
nvidia-smi topo -m >"$OUT/smi-topo.txt" 2>&1
nvidia-smi --query-gpu=timestamp,index,pci.bus_id,power.draw,enforced.power.limit,power.default_limit,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,temperature.gpu,clocks.max.sm,memory.total,persistence_mode,mig.mode.current,ecc.mode.current,compute_cap --format=csv >"$OUT/smi-query.csv" 2>&1

say "idle, as it is"
run live 20
say "--load"
run load 30 --load
say "--measure"
data=$(mktemp -d)
head -c 600000000 /dev/urandom >"$data/shard.bin"
mkdir "$data/small"
for i in $(seq 200); do head -c 200000 /dev/urandom >"$data/small/$i.bin"; done
run measure 60 --measure --data "$data"
rm -rf "$data"
say "the environment of PyTorch"
run python 20 --python "$PY"
say "captures"
for f in smi-q.txt smi-q.xml smi.txt smi-topo.txt smi-query.csv; do run "capture-$f" 20 "$OUT/$f"; done
run collected 20 --collect "$OUT/machine.gz"
run read-back 20 "$OUT/machine.gz"
say "as another user"
if [ "$(id -u)" -eq 0 ] && id nobody >/dev/null 2>&1; then
    cp "$G" /tmp/gpuwhy-check-copy && chmod 755 /tmp/gpuwhy-check-copy
    setpriv --reuid=nobody --clear-groups /tmp/gpuwhy-check-copy check --json - >"$OUT/nobody.json" 2>"$OUT/nobody.err"
    echo "nobody         status $?  $("$PY" -c "import json; print(json.load(open('$OUT/nobody.json'))['summary'])" 2>&1 | tail -1)" | tee -a "$table"
    rm -f /tmp/gpuwhy-check-copy
fi

say "beside a job that keeps the GPU busy"
"$PY" - >"$OUT/job.txt" 2>&1 <<'P' &
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + 14
while time.time() < end:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
P
job=$!
sleep 7
run busy 20
nvidia-smi --query-gpu=index,utilization.gpu,power.draw,clocks.current.sm,clocks_event_reasons.active --format=csv >"$OUT/smi-busy.csv" 2>&1
wait $job

say "against nvidia-smi and PyTorch"
"$PY" - "$OUT" <<'P' 2>&1 | tee -a "$table"
import csv, json, sys
out = sys.argv[1]
j = json.load(open(f"{out}/live.json"))
rows = list(csv.DictReader(open(f"{out}/smi-query.csv"), skipinitialspace=True))
g = {x["index"]: x for x in j["facts"]["gpus"]}
def num(s):
    return float(s.split()[0]) if s and s.split()[0].replace(".", "").isdigit() else None
pairs = [("enforced.power.limit [W]", "power_limit_mw", 1000), ("power.default_limit [W]", "power_default_mw", 1000), ("pcie.link.gen.max", "pcie_gen_max", 1),
         ("pcie.link.width.max", "pcie_width_max", 1), ("pcie.link.width.current", "pcie_width", 1), ("clocks.max.sm [MHz]", "sm_clock_max_mhz", 1),
         ("memory.total [MiB]", "memory_bytes", 1 << 20)]
same = wrong = 0
for r in rows:
    x = g[int(r["index"])]
    for col, key, f in pairs:
        a, b = num(r[col]), x[key]
        if a is None or b is None:
            print(f"  GPU {r['index']} {key}: nvidia-smi {r[col]}, gpuwhy {b}")
            wrong += (a is None) != (b is None)
        elif abs(a * f - b) > max(2 << 20 if f == 1 << 20 else 0.011 * f, 0):
            wrong += 1
            print(f"  DIFFERS GPU {r['index']} {key}: nvidia-smi {r[col]}, gpuwhy {b}")
        else:
            same += 1
print(f"facts          {same} equal to nvidia-smi's, {wrong} not")
a, b = (json.load(open(f"{out}/{n}.json")) for n in ("collected", "read-back"))
d = [x["id"] for x, y in zip(a["checks"], b["checks"]) if (x["status"], x["value"]) != (y["status"], y["value"])]
print(f"read back      {len(a['checks']) - len(d)} of {len(a['checks'])} results the same {d or ''}")
m = json.load(open(f"{out}/measure.json"))
for x in m["facts"]["measurement"]:
    v = x["value"]
    print(f"measured       {x['id']:14} GPU {x['gpu']}  {v * 1e-9:.2f} GB/s" if x["unit"] == "bytes/s" else f"measured       {x['id']:14} GPU {x['gpu']}  {v * 1e6:.2f} us", f"({x['how']})")
for n in ("live", "load", "busy"):
    by = {c["id"]: c for c in json.load(open(f"{out}/{n}.json"))["checks"]}
    for k in ("pcie", "heat", "power-brake", "power-limit", "clocks", "gpu-shared"):
        print(f"{n:14} {k:12} {by[k]['status']:14} {by[k]['value']}")
by = {c["id"]: c for c in json.load(open(f"{out}/python.json"))["checks"]}
for k in ("framework", "architecture", "libraries", "toolkit"):
    print(f"python         {k:12} {by[k]['status']:14} {by[k]['value']}")
try:
    import time, torch
    print("torch          arch list", torch.cuda.get_arch_list(), torch.version.cuda, torch.cuda.get_device_capability())
    h = torch.empty(256 << 20, dtype=torch.uint8).pin_memory(); d = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    p = torch.ones(256 << 20, dtype=torch.uint8)
    def speed(f, n=9):
        s = []
        for i in range(n + 2):
            torch.cuda.synchronize(); t = time.perf_counter(); f(); torch.cuda.synchronize(); s.append(time.perf_counter() - t)
        return (256 << 20) / sorted(s[2:])[n // 2] * 1e-9
    print(f"torch          h2d pinned {speed(lambda: d.copy_(h, non_blocking=True)):.2f} GB/s, pageable {speed(lambda: d.copy_(p)):.2f}, d2h pinned {speed(lambda: h.copy_(d, non_blocking=True)):.2f}")
except Exception as e:
    print("torch          ", e)
P
say "table"
cat "$table"
