#!/usr/bin/env python3
"""A training job without a GPU and without PyTorch: worker processes that need 80 ms for a batch, and a step of 20 ms.

    pool.py WORKERS [PREPARE_S [STEP_S]]

All of them sleep instead of computing, so that the knee (four workers) is the same on every machine. A line for each step.
"""
import multiprocessing
import sys
import time


def work(queue, prepare):
    while True:
        time.sleep(prepare)
        queue.put(1)


def main():
    workers = int(sys.argv[1])
    prepare, step = (float(sys.argv[i]) if len(sys.argv) > i else default for i, default in ((2, 0.08), (3, 0.02)))
    queue = multiprocessing.Queue(maxsize=2 * workers + 1)
    for _ in range(workers):
        multiprocessing.Process(target=work, args=(queue, prepare), daemon=True).start()
    busy_until = time.monotonic()
    for i in range(sys.maxsize):
        if workers:
            queue.get()
        else:
            time.sleep(prepare)
        busy_until = max(busy_until, time.monotonic()) + step
        time.sleep(max(0.0, busy_until - time.monotonic()))
        print("step %d" % i)


if __name__ == "__main__":
    main()
