#!/bin/bash
# Builds gpuwhy on a machine with an NVIDIA GPU and PyTorch, and tries `gpuwhy run` on it.
#
#   OUT=DIR scripts/gpu_run.sh first      one record in windows, one in full, their reports          (about 2 min)
#   OUT=DIR scripts/gpu_run.sh overhead   alternating with and without, launch-bound and GPU-bound   (about 7 min)
#   OUT=DIR scripts/gpu_run.sh zoo [CASE...]   planted bottlenecks: verdicts and gains               (about 7 min)
#   OUT=DIR scripts/gpu_run.sh rude       torch.profiler inside the recorded job                     (about 1 min)
#
# Everything goes to $OUT as it comes; a short table is printed last. Each call stays under 8 minutes.
set -u
cd "$(dirname "$0")/.."
: "${OUT:?set OUT to a folder}"
mkdir -p "$OUT"
what=${1:-first}
[ $# -gt 0 ] && shift
BUILD=${BUILD:-build-gpu}
PY=${PYTHON:-python3}
say() { echo "== $*"; }

say "build"
{ cmake -S . -B "$BUILD" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGW_WITH_TESTS=AUTO &&
  cmake --build "$BUILD" -j "$(nproc)"; } >"$OUT/build.log" 2>&1 || { tail -30 "$OUT/build.log"; exit 1; }
G=$BUILD/gpuwhy
ls -la "$G" "$BUILD/libgpuwhy_inject.so"
nvidia-smi --query-gpu=name,driver_version,utilization.gpu,memory.used --format=csv,noheader | tee "$OUT/smi.txt"

keep_small() { # records that are too large to bring home
    find "$OUT" -name 'cuda-*.gwr' -size +25M -print -delete 2>/dev/null | sed 's/^/dropped (large): /'
}

case $what in
first)
    for mode in windows full; do
        opt=; [ $mode = full ] && opt=--full
        for case in launch_bound main_loading; do
            say "$mode $case"
            timeout 100 "$G" run -o "$OUT/$case-$mode.rec" $opt -- "$PY" bench/zoo/zoo.py $case base --seconds 8 \
                >"$OUT/$case-$mode.out" 2>"$OUT/$case-$mode.report"
            echo "status $?"; cat "$OUT/$case-$mode.out"; head -40 "$OUT/$case-$mode.report"
            ls -la "$OUT/$case-$mode.rec"
            for f in "$OUT/$case-$mode.rec"/*.gwr; do "$BUILD/fakes/record_dump" "$f" 2>/dev/null | tail -1; done
            "$BUILD/fakes/record_dump" -v "$OUT/$case-$mode.rec"/record.gwr >"$OUT/$case-$mode.host.txt" 2>/dev/null
            "$BUILD/fakes/record_dump" -v "$OUT/$case-$mode.rec"/cuda-*.gwr 2>/dev/null | grep -E '^(window|device|name space=[23])' >"$OUT/$case-$mode.cuda.txt"
        done
    done
    say "the library's own tests on this machine"
    timeout 60 "$PY" tests/test_run_inject.py "$BUILD" full_is_complete windows_are_complete signals exports 2>&1 | tail -5
    [ -x "$BUILD/test_run_abi" ] && "$BUILD/test_run_abi"
    keep_small
    ;;
overhead)
    "$PY" bench/zoo/overhead.py "$G" "$OUT/overhead" --seconds 6 --pairs 4 --budget 400 \
        --modes 'plain;nvml+proc;windows;full;full,no-driver;full,kernels' launch_bound healthy_gpt 2>&1 | tee "$OUT/overhead.txt"
    keep_small
    say "table"; cat "$OUT/overhead.txt"
    ;;
zoo)
    "$PY" bench/zoo/live_zoo.py "$G" "$OUT/zoo" --seconds 7 --budget 400 "$@" 2>&1 | tee "$OUT/zoo.txt"
    keep_small
    say "table"; cat "$OUT/zoo.txt"
    ;;
rude)
    for mode in windows full; do
        opt=; [ $mode = full ] && opt=--full
        say "torch.profiler inside the job, $mode"
        timeout 100 "$G" run -o "$OUT/rude-$mode.rec" $opt -- "$PY" bench/zoo/profiled.py "$OUT/rude-$mode.json" \
            >"$OUT/rude-$mode.out" 2>"$OUT/rude-$mode.report"
        echo "status $?"; cat "$OUT/rude-$mode.out"; head -8 "$OUT/rude-$mode.report"
        for f in "$OUT/rude-$mode.rec"/cuda-*.gwr; do "$BUILD/fakes/record_dump" "$f" | tail -1; done
        rm -f "$OUT/rude-$mode.json"
    done
    keep_small
    ;;
*)
    sed -n '2,12p' "$0"; exit 2 ;;
esac
