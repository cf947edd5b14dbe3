#!/bin/bash
# Tries the sampling of hardware counters (PM sampling) on a machine with an NVIDIA GPU and PyTorch. Builds nothing.
#
#   OUT=DIR BUILD=build-gpu LIMIT=270 scripts/gpu_pm.sh
#
# Needs BUILD/gpuwhy, BUILD/libgpuwhy_inject.so, BUILD/pm_probe and BUILD/fakes/record_dump. Everything goes to $OUT as it comes; a
# short table is printed last. What does not fit into LIMIT seconds is left out and said so.
set -u
cd "$(dirname "$0")/.."
: "${OUT:?set OUT to a folder}"
mkdir -p "$OUT"
BUILD=${BUILD:-build-gpu}
PY=${PYTHON:-python3}
LIMIT=${LIMIT:-270}
CASES=${CASES:-launch_bound main_loading healthy_gpt}
T=$OUT/table.txt
for f in gpuwhy libgpuwhy_inject.so pm_probe fakes/record_dump; do
    [ -e "$BUILD/$f" ] || { echo "$BUILD/$f is not there: build it first"; exit 2; }
done
left() { echo $((LIMIT - SECONDS)); }
say() { echo "== $* (at $SECONDS s)"; }
finish() { kill "${job:-}" 2>/dev/null; find "$OUT" -name 'cuda-*.gwr' -size +6M -delete; say "table"; cat "$T"; }
trap 'finish; exit 1' TERM INT

{ nvidia-smi --query-gpu=name,driver_version,memory.used,clocks.sm,mig.mode.current --format=csv,noheader
  grep -i adminonly /proc/driver/nvidia/params
  "$PY" -c 'import nvidia.cuda_cupti as c; print("wheel", list(c.__path__))' 2>&1
  "$PY" - <<'PYEOF' 2>&1
import glob, sys
print("libcupti:", [f for d in sys.path for f in glob.glob(d + "/nvidia/*/lib/libcupti.so*") + glob.glob(d + "/torch/lib/libcupti*")], glob.glob("/usr/local/cuda*/**/libcupti.so*", recursive=True)[:6])
PYEOF
} | tee "$T"

# A job of half work, half pause: 5 ms and 5 ms.
cat >"$OUT/job.py" <<'PYEOF'
import sys, time, torch
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
torch.cuda.synchronize()
t0, n, end = time.perf_counter(), 0, time.perf_counter() + float(sys.argv[1])
for _ in range(20):
    a @ a
torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(50):
    a @ a
torch.cuda.synchronize()
per = (time.perf_counter() - t0) / 50
k = max(1, int(0.005 / per))
print(f"job: a product takes {per * 1e6:.0f} us, {k} of them a step", flush=True)
t0 = time.perf_counter()
while time.perf_counter() < end:
    for _ in range(k):
        a @ a
    torch.cuda.synchronize()
    time.sleep(0.005)
    n += 1
    if n % 100 == 0:
        print(f"job: {(time.perf_counter() - t0) / 100 * 1e3:.3f} ms a step", flush=True)
        t0 = time.perf_counter()
PYEOF

say "self-test"
"$PY" "$OUT/job.py" 60 >"$OUT/job.txt" 2>&1 &
job=$!
for _ in $(seq 40); do grep -q 'a step' "$OUT/job.txt" && break; sleep 0.5; done
smi() { nvidia-smi --query-gpu=memory.used,clocks.sm,clocks.mem,power.draw --format=csv,noheader; nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader; }
{ echo "before:"; smi; } >"$OUT/memory.txt"
timeout 60 "$BUILD/pm_probe" -t 2 -m 2 -i 1000,200,2000 -o "$OUT/samples.txt" >"$OUT/probe-root.txt" 2>&1 &
probe=$!
sleep 4
{ echo "while the probe ($probe) runs:"; smi; } >>"$OUT/memory.txt"
say "a second one at the same time"
timeout 20 "$BUILD/pm_probe" -t 1 -m 2 -i 1000 >"$OUT/probe-second.txt" 2>&1
wait "$probe"; echo "status $?" >>"$OUT/probe-root.txt"
cp "$BUILD/pm_probe" /tmp/pm_probe.nobody && chmod 755 /tmp/pm_probe.nobody
say "as nobody"
( cd /tmp && timeout 30 setpriv --reuid=65534 --regid=65534 --clear-groups /tmp/pm_probe.nobody -t 2 -m 2 -i 1000 >"$OUT/probe-nobody.txt" 2>&1; echo "status $?" >>"$OUT/probe-nobody.txt" )
for m in 1 2 3 4; do for i in 200 1000 2000; do timeout 20 "$BUILD/pm_probe" -t 1.5 -i $i -m $m | sed -n "2,\$p"; done; done >"$OUT/probe-metrics.txt" 2>&1
for b in 2 8; do timeout 20 "$BUILD/pm_probe" -t 1.5 -m 2 -i 200 -b $b | sed -n "2,\$p"; done >"$OUT/probe-buffer.txt" 2>&1
grep -q ': running' "$OUT/probe-root.txt" || timeout 30 "$BUILD/pm_probe" -c -t 2 -i 200 >"$OUT/probe-context.txt" 2>&1
kill "$job" 2>/dev/null; wait "$job" 2>/dev/null; job=
for f in root second nobody metrics buffer context; do
    [ -s "$OUT/probe-$f.txt" ] && { echo "-- probe, $f"; cut -c1-330 "$OUT/probe-$f.txt"; }
done >>"$T"
{ cat "$OUT/memory.txt"; tail -2 "$OUT/job.txt"; } >>"$T"
cat "$T"

for case in $CASES; do
    [ "$(left)" -gt 75 ] || { echo "turns $case: no time left" >>"$T"; continue; }
    say "turns $case"
    timeout 60 "$PY" bench/zoo/pm_turns.py turns "$BUILD/pm_probe" "$OUT" "$case" --rounds 6 --budget 32 2>&1 | tee "$OUT/pm-turns-$case.txt"
    tail -2 "$OUT/pm-turns-$case.txt" >>"$T"
done
for case in $CASES; do
    for mode in "" --no-pm; do
        [ "$(left)" -gt 30 ] || { echo "record $case $mode: no time left" >>"$T"; continue; }
        say "record $case $mode"
        timeout 60 "$PY" bench/zoo/pm_turns.py record "$BUILD/gpuwhy" "$BUILD/fakes/record_dump" "$OUT" "$case" --seconds 5 $mode 2>&1 | cut -c1-330 |
            tee "$OUT/pm-record-$case$mode.txt"
        { cat "$OUT/pm-record-$case$mode.txt"; [ -z "$mode" ] && sed -n '1,60p' "$OUT/pm-$case-on.report" | grep -iE 'run|activity|counter|gpuwhy:' | head -12 | sed 's/^/    | /'; } >>"$T"
    done
done
finish
