#!/bin/bash
# On a machine with an NVIDIA GPU and PyTorch: builds gpuwhy and tries `gpuwhy sweep` on the jobs of bench/sweep.
#
#   OUT=DIR [LIMIT=560] scripts/gpu_sweep.sh [PART...]       parts: loader whole memory flat parts gpt hook truth (default: all)
#
#   loader   knee of a loader that is bound by CPUs, 12 settings         whole   every one of them, to compare
#   memory   a batch that grows until GPU memory ends                    flat    workers make no difference
#   parts    --loader-only: supply and demand                            gpt     a batch that fills the GPU early
#   hook     the loader's workers set from outside (--loader)            truth   what the job measures itself, at three settings
#
# Everything goes to $OUT as it comes. What does not fit into LIMIT seconds is left out. A short table is printed last.
set -u
cd "$(dirname "$0")/.."
: "${OUT:?set OUT to a folder}"
mkdir -p "$OUT"
LIMIT=${LIMIT:-560}
BUILD=${BUILD:-build-gpu}
PY=${PYTHON:-python3}
JOB=bench/sweep/job.py
WORKERS=workers=0,1,2,3,4,5,6,7,8,10,12,14
left() { echo $((LIMIT - SECONDS)); }
say() { echo "== $* (at $SECONDS s)"; }

say build
{ cmake -S . -B "$BUILD" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGW_WITH_TESTS=OFF &&
  cmake --build "$BUILD" -j "$(nproc)" --target gpuwhy gpuwhy_inject; } >"$OUT/build.log" 2>&1 || { tail -30 "$OUT/build.log"; exit 1; }
G=$BUILD/gpuwhy
nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used --format=csv,noheader | tee "$OUT/smi.txt"
nproc | tee "$OUT/cpus.txt"

# How much a picture costs, so that 5.5 workers would be needed: the machine's CPUs and GPU decide.
WORK=$("$PY" $JOB calibrate --workers 5.5 2>"$OUT/calibrate.txt") || { tail -3 "$OUT/calibrate.txt"; WORK=20; }
cat "$OUT/calibrate.txt"

# sweep NAME LEAST-SECONDS OPTIONS... -- COMMAND...
sweep() {
    local name=$1 need=$2
    shift 2
    if [ "$(left)" -lt "$need" ]; then
        echo "$name: no time left" | tee -a "$OUT/left-out.txt"
        return
    fi
    say "$name"
    timeout -k 10 "$(left)" "$G" sweep --json "$OUT/$name.json" --least 2s --precision 4% --point-limit 18s --budget "$(($(left) - 8))s" "$@" \
        >"$OUT/$name.txt" 2>"$OUT/$name.err"
    echo "status $?"
    sed -n 2,8p "$OUT/$name.txt"
    grep -v "known to" "$OUT/$name.err" | tail -3
}

finish() {
    say table
    "$PY" bench/sweep/table.py $(ls "$OUT"/*.json 2>/dev/null) | tee "$OUT/table.txt"
    [ -f "$OUT/truth.txt" ] && { echo "measured by the job itself:"; cat "$OUT/truth.txt"; }
    cat "$OUT/left-out.txt" 2>/dev/null
}
trap 'finish; exit 1' TERM INT

parts=${*:-loader whole memory flat parts gpt hook truth}
for part in $parts; do
    case $part in
    loader) sweep loader 60 --repeats 1 --vary $WORKERS -- "$PY" $JOB loader --work $WORK --workers '{workers}' ;;
    whole) sweep loader-all 120 --repeats 1 --exhaustive --no-diagnosis --vary $WORKERS -- "$PY" $JOB loader --work $WORK --workers '{workers}' ;;
    memory) sweep memory 60 --repeats 1 --no-diagnosis --vary batch=16..2048x2 -- "$PY" $JOB memory --batch '{batch}' ;;
    flat) sweep flat 40 --repeats 1 --no-diagnosis --vary workers=2,6,12 -- "$PY" $JOB flat --workers '{workers}' ;;
    parts) sweep parts 60 --repeats 1 --loader-only -- "$PY" $JOB loader --work $WORK --workers 4 ;;
    gpt) sweep gpt 60 --repeats 1 --no-diagnosis --vary batch=2..256x2 -- "$PY" $JOB gpt --batch '{batch}' ;;
    hook) sweep hook 50 --repeats 1 --no-diagnosis --loader workers --vary workers=1,4,8 -- "$PY" $JOB loader --work $WORK ;;
    truth)
        for w in 2 4 8; do
            [ "$(left)" -gt 35 ] || continue
            say "truth, $w workers"
            echo "workers=$w $(timeout 30 "$PY" $JOB loader --work $WORK --workers $w --measure 4)" | tee -a "$OUT/truth.txt"
        done
        ;;
    *) echo "no part $part" ;;
    esac
done
finish
