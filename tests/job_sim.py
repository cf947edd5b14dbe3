"""Recordings of a job that never ran: a small simulation of data-parallel training, written as torch.profiler writes it.

What every rank does is known here, and a job without the planted trouble can be simulated too, so that a test can ask
for the right rank, the right reason and the right gain. Each rank has a clock of its own.

    job = Job(ranks=4, steps=8)
    job.data_wait[3] = 8000            # us that rank 3 waits for its loader in every step
    job.write(folder); job.step_us()   # mean step of the job, as the simulation had it
"""
import gzip
import json
import os
import random
import sys


class Job:
    def __init__(self, ranks=4, steps=8, layers=6, seed=1):
        self.ranks, self.steps, self.layers = ranks, steps, layers
        self.kernel_us = [120.0] * ranks       # one kernel of a layer
        self.kernels = [8] * ranks             # of a layer, forward and backward each
        self.launch_us = 8.0                   # host time to issue one kernel
        self.data_wait = [0.0] * ranks         # in every step
        self.late_at = {}                      # (rank, step) -> us that this rank waits in this step
        self.transfer_us = 300.0               # of one gradient bucket
        self.bucket_elements = 12_500_000      # fp32: 50 MB
        self.jitter = 0.01
        self.pairs = False                     # ranks 2k and 2k+1 also gather among themselves
        self.gpu = "NVIDIA H200"
        self.skip = [0] * ranks                # steps at the start that a rank did not record
        self.world_size = ranks
        self.seed = seed
        self.offset = [1000.0 * r * r + 7.25 * r for r in range(ranks)]  # clocks, us
        self.sync_every_step = False
        self._events = None

    # ---- the simulation ----

    def run(self):
        rnd = random.Random(self.seed)
        self._events = [[] for _ in range(self.ranks)]
        self._marks = [[] for _ in range(self.ranks)]
        host = [0.0] * self.ranks
        gpu = [0.0] * self.ranks     # the compute stream is free from then on
        comm = [0.0] * self.ranks    # the communication stream
        corr = [100] * self.ranks
        for step in range(self.steps):
            for r in range(self.ranks):
                self._marks[r].append(host[r])
                wait = self.data_wait[r] * (1 + 0.1 * (rnd.random() - 0.5)) + self.late_at.get((r, step), 0.0)
                if wait:
                    self._host(r, "user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", host[r], wait)
                    host[r] += wait
            ready = {}
            for part in ("forward", "backward"):
                for layer in range(self.layers):
                    for r in range(self.ranks):
                        for _ in range(self.kernels[r]):
                            corr[r] += 1
                            self._launch(r, host[r], corr[r])
                            start = max(gpu[r], host[r] + 5)
                            host[r] += self.launch_us
                            dur = self.kernel_us[r] * (1 + self.jitter * (rnd.random() - 0.5))
                            self._kernel(r, f"layer_{part}_kernel", 7, start, dur, corr[r])
                            gpu[r] = start + dur
                    if part == "backward":
                        self._collective(ready, gpu, comm, host, corr, "AllReduce", self.bucket_elements + layer * 250_000,
                                         [list(range(self.ranks))])
                    elif self.pairs:
                        groups = [[a, a + 1] for a in range(0, self.ranks, 2)]
                        self._collective(ready, gpu, comm, host, corr, "AllGather", 1_000_000, groups, blocking=True)
            for r in range(self.ranks):
                corr[r] += 1
                self._launch(r, host[r], corr[r])
                host[r] += self.launch_us
                start = max(gpu[r], comm[r], host[r])  # the optimizer needs all gradients
                self._kernel(r, "optimizer_kernel", 7, start, 200.0, corr[r])
                gpu[r] = start + 200.0
                corr[r] += 1  # loss.item(): the host does not run ahead over steps
                self._host(r, "cuda_runtime", "cudaStreamSynchronize", host[r], gpu[r] - host[r] + 5, corr[r])
                host[r] = gpu[r] + 5
        self._end = list(host)
        return self

    def _collective(self, ready, gpu, comm, host, corr, kind, elements, groups, blocking=False):
        for group in groups:
            starts = {}
            for r in group:
                corr[r] += 1
                self._launch(r, host[r], corr[r])
                starts[r] = max(gpu[r], comm[r], host[r] + 5)
                host[r] += self.launch_us
            transfer = self.transfer_us if kind == "AllReduce" else 60.0
            end = max(starts.values()) + transfer
            for r in group:
                self._kernel(r, f"ncclDevKernel_{kind}_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, starts[r],
                             end - starts[r], corr[r], {"Collective name": kind.lower(), "In msg nelems": elements,
                                                        "Out msg nelems": elements, "dtype": "Float", "Group size": len(group)})
                comm[r] = end
                if blocking:
                    gpu[r] = max(gpu[r], end)

    def _launch(self, r, at, corr):
        self._host(r, "cuda_runtime", "cudaLaunchKernel", at, 4.0, corr)

    def _host(self, r, cat, name, at, dur, corr=None):
        args = {"External id": 1}
        if corr is not None:
            args["correlation"] = corr
        self._events[r].append({"ph": "X", "cat": cat, "name": name, "pid": 1000 + r, "tid": 1000 + r, "ts": at, "dur": dur, "args": args})

    def _kernel(self, r, name, stream, at, dur, corr, more=None):
        self._events[r].append({"ph": "X", "cat": "kernel", "name": name, "pid": r, "tid": stream, "ts": at, "dur": dur,
                                "args": {"device": r, "stream": stream, "correlation": corr, "grid": [1000, 1, 1],
                                         "block": [256, 1, 1], **(more or {})}})

    # ---- what came out ----

    def step_us(self):
        """Mean over the steps but the first and the last, as rank 0's optimizer saw them end."""
        if self._events is None:
            self.run()
        ends = [e["ts"] + e["dur"] for e in self._events[0] if e["name"] == "optimizer_kernel"]
        return (ends[-2] - ends[0]) / (len(ends) - 2)

    def trace(self, r):
        if self._events is None:
            self.run()
        off = self.offset[r] + 5_000_000_000.0
        events = []
        begin = self._marks[r][self.skip[r]]
        for i, at in enumerate(self._marks[r]):
            if i < self.skip[r]:
                continue
            end = self._marks[r][i + 1] if i + 1 < len(self._marks[r]) else self._end[r]
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{10 + i}", "pid": 1000 + r,
                           "tid": 1000 + r, "ts": at, "dur": end - at, "args": {"External id": 1}})
        events += [e for e in self._events[r] if e["ts"] >= begin]
        # in whole ns, so that what follows without a hole does not overlap by rounding
        out = [{**e, "ts": round(e["ts"] + off, 3), "dur": round(round(e["ts"] + off + e["dur"], 3) - round(e["ts"] + off, 3), 3)}
               for e in events]
        doc = {"schemaVersion": 1, "deviceProperties": [{"id": r, "name": self.gpu, "numSms": 132, "computeMajor": 9, "computeMinor": 0}],
               "traceEvents": out}
        if self.world_size:
            doc["distributedInfo"] = {"backend": "nccl", "rank": r, "world_size": self.world_size}
        return doc

    def write(self, folder, ranks=None, name="rank{}.json.gz"):
        """Writes the recordings of `ranks` (default: all) and returns their paths."""
        paths = []
        for r in ranks if ranks is not None else range(self.ranks):
            path = os.path.join(folder, name.format(r))
            with gzip.open(path, "wt", compresslevel=1) as f:
                json.dump(self.trace(r), f)
            paths.append(path)
        return paths


def main(argv):
    """usage: job_sim.py FOLDER [RANK]: the recordings of four ranks, of which RANK waits 8 ms for its data in every step"""
    if len(argv) not in (1, 2):
        print(main.__doc__)
        return 2
    job = Job()
    if len(argv) == 2:
        job.data_wait[int(argv[1])] = 8000
    os.makedirs(argv[0], exist_ok=True)
    job.write(argv[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
