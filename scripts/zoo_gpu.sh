#!/bin/bash
# On a machine with an NVIDIA GPU and PyTorch: runs the zoo of planted bottlenecks, traced, while gpuwhy is being built.
#
#   OUT=DIR scripts/zoo_gpu.sh [SECONDS [CASE,CASE,...]]     (default: 420 s, all cases)
#
# More options for run_zoo.py go into ZOO_OPTIONS, such as "--repeats 2". What stays in $OUT: zoo.tar (and
# zoo-2.tar, zoo-3.tar if it was too small), zoo.txt with what was printed, labels.tsv and times.tsv.
set -u
cd "$(dirname "$0")/.."
: "${OUT:?set OUT to a folder}"
seconds=${1:-420}
cases=${2:-}
build=${BUILD:-build-gpu}
work=$OUT/zoo.d
mkdir -p "$work" "$build"
export PYTHONUNBUFFERED=1

nice -n 19 bash -c "cmake -S . -B '$build' -DCMAKE_BUILD_TYPE=RelWithDebInfo -DGW_WITH_JANSSON=OFF -DGW_WITH_SQLITE=OFF \
    -DGW_WITH_TESTS=OFF && make -C '$build' -j16 gpuwhy" >"$work/build.txt" 2>&1 &
builder=$!

# shellcheck disable=SC2086  (ZOO_OPTIONS and the choice of cases are words)
"${PYTHON:-python3}" bench/zoo/run_zoo.py --out "$work" --seconds "$seconds" ${cases:+--cases "$cases"} --traces \
    --gpuwhy "$build/gpuwhy" ${ZOO_OPTIONS:-} 2>&1 | tee "$OUT/zoo.txt"

if wait "$builder"; then :; else echo "the build failed:"; tail -5 "$work/build.txt"; fi
grep -l . "$work"/log/*.err 2>/dev/null | while read -r f; do
    echo "== $(basename "$f")"; tail -4 "$f"
done >"$work/errors.txt"
mv "$work"/zoo*.tar "$work/labels.tsv" "$work/times.tsv" "$OUT/" 2>/dev/null
cp "$work/errors.txt" "$OUT/errors.txt"
rm -rf "$work"
ls -la "$OUT"
