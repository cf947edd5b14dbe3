#!/bin/bash
# Builds gpuwhy on a machine with an NVIDIA GPU and PyTorch, and tries `gpuwhy run` on it.
#
#   OUT=DIR scripts/gpu_run.sh first      one record in windows, one in full, their reports          (about 2 min)
#   OUT=DIR scripts/gpu_run.sh overhead   what each part costs, in turns; four reports; torch.profiler  (LIMIT=265 s at most)
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
  cmake --build "$BUILD" -j "$(nproc)" --target ${TARGETS:-gpuwhy gpuwhy_inject record_dump}; } >"$OUT/build.log" 2>&1 || { tail -30 "$OUT/build.log"; exit 1; }
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
    cmake --build "$BUILD" -j "$(nproc)" >>"$OUT/build.log" 2>&1
    timeout 60 "$PY" tests/test_run_inject.py "$BUILD" full_is_complete windows_are_complete signals exports 2>&1 | tail -5
    [ -x "$BUILD/test_run_abi" ] && "$BUILD/test_run_abi"
    keep_small
    ;;
overhead)
    # One call must tell all: each part writes its result as it ends, and what does not fit in LIMIT seconds is left out.
    LIMIT=${LIMIT:-265}
    W=$(mktemp -d) T=$OUT/table.txt
    mv "$OUT/build.log" "$OUT/smi.txt" "$W/"
    left() { echo $((LIMIT - SECONDS)); }
    pack() { find "$W" -name 'cuda-*.gwr' -size +6M -delete; tar czf "$OUT/results.tar.gz.new" -C "$W" . && mv "$OUT/results.tar.gz.new" "$OUT/results.tar.gz"; }
    finish() { pack; say "table (after $SECONDS s)"; cat "$T"; }
    trap 'finish; exit 1' TERM INT
    { echo "commit $(git rev-parse --short HEAD 2>/dev/null)"; cat "$W/smi.txt"; } >"$T"
    say "turns launch_bound (at $SECONDS s)"
    "$PY" bench/zoo/turns.py "$G" "$W" launch_bound --rounds 6 --slice 1.2 --budget 80 2>&1 | tee "$W/turns-launch_bound.log"
    { cat "$W/turns-launch_bound.txt"
      for m in windows full attached; do
          echo "  $m: $("$BUILD/fakes/record_dump" "$W/launch_bound-$m.rec"/cuda-*.gwr | tail -1)"
      done; } >>"$T" 2>&1
    pack
    if [ "$(left)" -gt 150 ]; then
        say "turns healthy_gpt (at $SECONDS s)"
        "$PY" bench/zoo/turns.py "$G" "$W" healthy_gpt --modes "plain;host;windows;full" --rounds 4 --slice 1.5 --budget 45 2>&1 |
            tee "$W/turns-healthy_gpt.log"
        cat "$W/turns-healthy_gpt.txt" >>"$T"
        pack
    fi
    for case in launch_bound item_sync main_loading pageable_big; do
        [ "$(left)" -gt 45 ] || { echo "$case: no time left" >>"$T"; continue; }
        say "windows $case (at $SECONDS s)"
        R=$W/report-$case
        timeout 40 "$G" run -o "$R.rec" -- "$PY" bench/zoo/zoo.py $case base --seconds 7 >"$R.out" 2>"$R.txt"
        { echo "report of $case (status $?): $(tail -1 "$R.out")"
          sed -n '/^Trust/,$d; 1,12p' "$R.txt" | sed 's/^/    /'
          echo "  $("$BUILD/fakes/record_dump" "$R.rec"/cuda-*.gwr | tail -1)"; } >>"$T" 2>&1
        "$BUILD/fakes/record_dump" -v "$R.rec"/cuda-*.gwr 2>/dev/null | grep -E '^(window|device)' >"$R.windows" 
        "$BUILD/fakes/record_dump" -v "$R.rec"/record.gwr 2>/dev/null | grep -aE '^[a-z_.0-9]+=' >"$R.facts"
        pack
    done
    if [ "$(left)" -gt 35 ]; then
        say "torch.profiler inside the job (at $SECONDS s)"
        timeout $(($(left) - 10)) "$G" run -o "$W/rude.rec" -- "$PY" bench/zoo/profiled.py "$W/rude.json" 20 >"$W/rude.out" 2>"$W/rude.txt"
        { echo "torch.profiler inside (status $?): $(tail -1 "$W/rude.out")"; head -3 "$W/rude.txt" | sed 's/^/    /'
          echo "  $("$BUILD/fakes/record_dump" "$W/rude.rec"/cuda-*.gwr | tail -1)"; } >>"$T" 2>&1
        rm -f "$W/rude.json"
    fi
    finish
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
