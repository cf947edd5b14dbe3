#!/usr/bin/env python3
"""Benchmark of the Nsight Systems importer: a big export made by repetition, read by gpuwhy and by Python's sqlite3.

usage: bench_nsys.py [--size GB] [--reader PATH] [--keep FILE] [--threads N] [--cap MB] [--runs N]

Synthesises one training step (kernels, copies, sets, calls, synchronisations, NVTX ranges, OS calls, in the columns that
nsys 2025 exports), repeats it until the file has the wanted size, and reads it twice in the same run:

  gpuwhy   build/nsys_account: the importer, gw_trace_finish and the exact busy/idle sums
  python   the same tables and columns through the sqlite3 module, names resolved through a dict, launches joined with
           GPU work through a dict, and the same sums; about what a short script of a user does

Both must print the same sums. Prints seconds, peak memory and the ratio. Nothing is asserted about speed.
"""
import argparse, os, resource, sqlite3, subprocess, sys, tempfile, time

KERNEL_COLS = """start end deviceId contextId greenContextId streamId correlationId globalPid demangledName shortName mangledName
 launchType cacheConfig registersPerThread gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory
 localMemoryPerThread localMemoryTotal gridId sharedMemoryExecuted graphNodeId sharedMemoryLimitConfig qmdBulkReleaseDone
 qmdPreexitDone qmdLastCtaDone graphId clusterX clusterY clusterZ clusterSchedulingPolicy maxPotentialClusterSize
 maxActiveClusters sharedMemoryRequestedPercentage tensorSizeMinusOneElements""".split()
TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL_COLS,
    "CUPTI_ACTIVITY_KIND_MEMCPY": """start end deviceId contextId greenContextId streamId correlationId globalPid bytes copyKind
 deprecatedSrcId srcKind dstKind srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress
 copyCount""".split(),
    "CUPTI_ACTIVITY_KIND_MEMSET": """start end deviceId contextId greenContextId streamId correlationId globalPid value bytes
 graphNodeId memKind""".split(),
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId".split(),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": """start end deviceId contextId greenContextId streamId correlationId globalPid
 deprecatedSyncType syncType eventId eventSyncId""".split(),
    "NVTX_EVENTS": """start end eventType rangeId category color text globalTid endGlobalTid textId domainId uint64Value
 int64Value doubleValue uint32Value int32Value floatValue jsonTextId jsonText binaryData""".split(),
    "OSRT_API": "start end eventClass globalTid nameId returnValue nestingLevel callchainId".split(),
}
PID = 281477392629760  # hardware 0, VM 1, process 144, as in real exports
TID = PID + 144
STEP_NS = 40_000_000
LAUNCHES = 900  # GPU operations a step


def step_rows(rng):
    """One step: {table: rows}. Row times are relative; correlation ids count from 1."""
    rows = {t: [] for t in TABLES}
    host = gpu = 0
    corr = 0
    for i in range(LAUNCHES):
        corr += 1
        call = rng(4000, 9000)
        start = max(gpu, host + 2500)
        dur = rng(3000, 60000)
        api, name = 100, 200 + i % 150
        if i % 30 == 7:
            rows["CUPTI_ACTIVITY_KIND_MEMCPY"].append(
                (start, start + dur, 0, 1, None, 7, corr, PID, 4096 * (1 + i), 1 + i % 2, None, i % 2, 2, None, None, None, None,
                 None, None, None, 1))
            api = 101
        elif i % 60 == 11:
            rows["CUPTI_ACTIVITY_KIND_MEMSET"].append((start, start + 900, 0, 1, None, 7, corr, PID, 0, 4096, None, 2))
            dur, api = 900, 102
        else:
            stream = 20 if i % 25 == 3 else 7
            if stream == 20:
                name = 350
            rows["CUPTI_ACTIVITY_KIND_KERNEL"].append(
                (start, start + dur, 0, 1, 0, stream, corr, PID, name, name + 200, name + 400, 1, 1, 32, 1 + i % 500, 1, 1, 256, 1, 1, 0,
                 16384, 0, 250871808, 100000 + corr, 32768, None, 0, None, None, None, None, 0, 0, 0, 1, 0, 0, None, "[]"))
        gpu = start + dur
        rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append((host, host + call, 0, TID, corr, api, 0, None))
        rows["NVTX_EVENTS"].append((host - 900, host + call + 600, 59, None, None, None, f"aten::op{i % 80}, op_id = {i}", TID, None,
                                    None, 0) + (None,) * 9)
        host += call + rng(1000, 12000)
        if i % 6 == 5:
            rows["OSRT_API"].append((host, host + rng(1000, 50000), 27, TID + i % 9, 110 + i % 8, 0, 0, 0))
    corr += 1
    rows["CUPTI_ACTIVITY_KIND_RUNTIME"].append((host, max(gpu, host) + 4000, 0, TID, corr, 103, 0, None))
    rows["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"].append((host + 1000, max(gpu, host) + 3000, 0, 1, None, 7, corr, PID, None, 3,
                                                        4294967295, 0))
    rows["NVTX_EVENTS"].append((0, STEP_NS - 1000, 59, None, None, None, "step", TID, None, None, 0) + (None,) * 9)
    return rows, corr


def synthesise(path, size, progress):
    import random
    r = random.Random(7)
    rows, corrs = step_rows(r.randint)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=OFF")
    db.execute("PRAGMA synchronous=OFF")
    db.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    names = {100: "cudaLaunchKernel_v7000", 101: "cudaMemcpyAsync_v3020", 102: "cudaMemsetAsync_v3020",
             103: "cudaStreamSynchronize_v3020"}
    names.update({110 + i: n for i, n in enumerate("poll read futex write ioctl mmap sem_wait pthread_cond_wait".split())})
    for i in range(600):
        names[200 + i] = f"void at::native::elementwise_kernel<(int){i}, (int)4, at::native::gpu_kernel_impl<at::native::CUDAFunctor_add<float>>>(int, T3)"
    names[350] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)"
    db.executemany("INSERT INTO StringIds VALUES (?,?)", names.items())
    db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)")
    db.executemany("INSERT INTO META_DATA_EXPORT VALUES (?,?)", [("EXPORT_PRODUCT_VERSION", "2025.5.1.121"),
                                                                 ("EXPORT_SCHEMA_VERSION", "3.23.3")])
    for t, cols in TABLES.items():
        db.execute(f"CREATE TABLE {t} (" + ",".join(f'"{c}" {"TEXT" if c in ("text", "tensorSizeMinusOneElements") else "INTEGER"}' for c in cols) + ")")
        db.execute(f"CREATE TEMP TABLE one_{t} AS SELECT * FROM {t} WHERE 0")
        db.executemany(f"INSERT INTO one_{t} VALUES ({','.join('?' * len(cols))})", rows[t])
    steps = 0
    while True:
        for t, cols in TABLES.items():
            pick = ",".join(f'"{c}"+{steps * STEP_NS + 10**9}' if c in ("start", "end") else
                            f'"{c}"+{steps * corrs}' if c in ("correlationId", "gridId") else f'"{c}"' for c in cols)
            db.execute(f"INSERT INTO {t} SELECT {pick} FROM one_{t}")
        steps += 1
        if steps % 64 == 0:
            db.commit()
            if os.path.getsize(path) >= size:
                break
            progress(os.path.getsize(path))
    db.commit()
    db.close()
    return steps


COMM = ("ncclDevKernel", "ncclKernel", "ncclSymk", "nvshmem")


def python_reader(path):
    """Reads what gpuwhy reads and returns the same line."""
    db = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    strings = dict(db.execute("SELECT id, value FROM StringIds"))
    gpu, calls, host = [], {}, []
    for s, e, dev, ctx, stream, corr, pid, name, short, gx, gy, gz, bx, by, bz, node in db.execute(
            "SELECT start,end,deviceId,contextId,streamId,correlationId,globalPid,demangledName,shortName,gridX,gridY,gridZ,"
            "blockX,blockY,blockZ,graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL"):
        n = strings[name]
        gpu.append((s, e, 1 if any(c in n for c in COMM) else 0, dev, stream, (pid >> 24, corr), n, gx * gy * gz, bx * by * bz))
    for s, e, dev, ctx, stream, corr, pid, kind, size, src, dst, node in db.execute(
            "SELECT start,end,deviceId,contextId,streamId,correlationId,globalPid,copyKind,bytes,srcKind,dstKind,graphNodeId"
            " FROM CUPTI_ACTIVITY_KIND_MEMCPY"):
        gpu.append((s, e, 2, dev, stream, (pid >> 24, corr), kind, size, src))
    for s, e, dev, ctx, stream, corr, pid, size, mem in db.execute(
            "SELECT start,end,deviceId,contextId,streamId,correlationId,globalPid,bytes,memKind FROM CUPTI_ACTIVITY_KIND_MEMSET"):
        gpu.append((s, e, 2, dev, stream, (pid >> 24, corr), "memset", size, mem))
    for s, e, tid, name, corr in db.execute("SELECT start,end,globalTid,nameId,correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME"):
        calls[(tid >> 24, corr)] = (s, e, tid, strings[name])
    for s, e, kind, text, text_id, tid, domain in db.execute(
            "SELECT start,end,eventType,text,textId,globalTid,domainId FROM NVTX_EVENTS"):
        host.append((s, e, tid, text.split(", op_id", 1)[0] if text else strings.get(text_id)))
    for s, e, tid, name in db.execute("SELECT start,end,globalTid,nameId FROM OSRT_API"):
        host.append((s, e, tid, strings[name]))
    for s, e, stream, corr, kind in db.execute(
            "SELECT start,end,streamId,correlationId,syncType FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"):
        host.append((s, e, stream, kind))
    read = time.monotonic()
    gpu.sort(key=lambda g: g[0])
    host.sort(key=lambda h: h[0])
    linked = sum(1 for g in gpu if g[5] in calls)
    return sums(gpu), len(gpu) + len(calls) + len(host), linked, read


def sums(gpu):
    points = []
    for g in gpu:
        points.append((g[0], g[2], 1))
        points.append((g[1], g[2], -1))
    points.sort()
    total, on, last = [0, 0, 0, 0], [0, 0, 0], points[0][0]
    for t, kind, step in points:
        total[0 if on[0] else 1 if on[1] else 2 if on[2] else 3] += t - last
        on[kind] += step
        last = t
    return [points[-1][0] - points[0][0]] + total


def child_python(path):
    start = time.monotonic()
    acc, events, linked, read = python_reader(path)
    print("0", *acc, sep="\t")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"events={events} linked={linked} read_s={read - start:.2f} total_s={time.monotonic() - start:.2f} peak_mb={peak // 1024}",
          file=sys.stderr)


def run(cmd, env=None):
    """Wall seconds, processor seconds, output, name=value words of standard error."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    p = subprocess.run(cmd, capture_output=True, text=True, env={**os.environ, **(env or {})})
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if p.returncode:
        sys.exit(f"{cmd[0]} failed ({p.returncode}): {p.stderr.strip()[:400]}")
    return wall, cpu, p.stdout.strip(), dict(w.split("=", 1) for w in p.stderr.split() if "=" in w)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--size", type=float, default=1.0, help="GB (default 1)")
    a.add_argument("--reader", default="build/nsys_account")
    a.add_argument("--keep", help="keep the file, or use it when it is there")
    a.add_argument("--threads", default="0")
    a.add_argument("--cap", type=int, default=0, help="memory for events in MB, 0 = none")
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--no-python", action="store_true")
    a.add_argument("--python-child", help=argparse.SUPPRESS)
    o = a.parse_args()
    if o.python_child:
        return child_python(o.python_child)
    path = o.keep or os.path.join(tempfile.mkdtemp(prefix="gpuwhy-bench-"), "big.sqlite")
    if not os.path.exists(path):
        start = time.monotonic()
        steps = synthesise(path, int(o.size * 1e9), lambda n: print(f"\r{n / 1e9:.2f} GB", end="", file=sys.stderr))
        print(f"\rmade {path}: {os.path.getsize(path) / 1e9:.2f} GB, {steps} steps, {time.monotonic() - start:.0f} s", file=sys.stderr)
    with open(path, "rb") as f:  # both readers find the file in the page cache, as far as it fits
        while f.read(1 << 24):
            pass
    best = None
    for _ in range(o.runs):
        got = run([o.reader, path], {"GW_THREADS": o.threads, "GW_CAP_MB": str(o.cap)})
        best = got if best is None or got[0] < best[0] else best
    wall, cpu, out, info = best
    print(f"file      {os.path.getsize(path) / 1e9:.2f} GB; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"gpuwhy    {wall:.2f} s ({os.path.getsize(path) / 1e6 / wall:.0f} MB/s), {cpu:.2f} s of processor; import alone {info['read_s']} s;"
          f" {info['events']} events, peak {info['peak_mb']} MB")
    if not o.no_python:
        pwall, pcpu, pout, pinfo = run([sys.executable, os.path.abspath(__file__), "--python-child", path])
        print(f"python    {pwall:.2f} s, {pcpu:.2f} s of processor; reading alone {pinfo['read_s']} s; {pinfo['events']} events,"
              f" peak {pinfo['peak_mb']} MB")
        print(f"ratio     {pwall / wall:.1f}x end to end, {float(pinfo['read_s']) / float(info['read_s']):.1f}x reading alone,"
              f" {pcpu / cpu:.1f}x in processor time, {float(pinfo['peak_mb']) / float(info['peak_mb']):.1f}x in memory")
        print("sums      " + ("equal" if out == pout else f"DIFFER: {out!r} against {pout!r}"))
        if out != pout and not o.cap:
            sys.exit(1)
    if not o.keep:
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


if __name__ == "__main__":
    main()
