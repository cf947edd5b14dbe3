#!/usr/bin/env python3
"""Small PyTorch jobs, each with one planted bottleneck and a repaired twin.

usage: zoo.py list
       zoo.py CASE base|fix [--seconds S] [--warm-up N]

Runs the case for S seconds after N warm-up steps and prints one line of JSON: mean step time, CPU time of the main
thread a step, steps. Data is made up; nothing is downloaded. Cases are functions below: a docstring for people, and a
row in CASES with the finding that is expected ("none" = the tool must not blame anything).
"""
import argparse
import gc
import json
import os
import sys
import tempfile
import time

CASES = {}


def case(expected, also=(), workers=None):
    """Registers a case: the finding expected first, and others that are right too."""
    def wrap(fn):
        CASES[fn.__name__] = {"fn": fn, "expected": expected, "also": tuple(also), "doc": (fn.__doc__ or "").strip()}
        return fn
    return wrap


# --- building blocks ------------------------------------------------------------------------------------------------


def torch_mod():
    import torch
    return torch


def convnet(width=64, bf16=True):
    import torch
    import torch.nn as nn
    layers, c = [], 3
    for i in range(6):
        n = width * 2 ** (i // 2)
        layers += [nn.Conv2d(c, n, 3, stride=2 if i % 2 == 0 else 1, padding=1, bias=False), nn.BatchNorm2d(n), nn.ReLU()]
        c = n
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, 1000)).cuda()
    if bf16:
        model = model.to(memory_format=torch.channels_last)
    return model


def gpt(layers=4, width=512, heads=8, vocab=8192):
    import torch
    import torch.nn as nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            n, t, _ = x.shape
            q, k, v = self.qkv(self.a(x)).view(n, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(n, t, width))
            return x + self.mlp(self.b(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(vocab, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.head = nn.Linear(width, vocab, bias=False)

        def forward(self, ids):
            return self.head(self.blocks(self.emb(ids)))

    return Model().cuda()


def train_step(model, opt, loss_fn, x, y, amp=True):
    import torch
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.bfloat16, enabled=amp):
        loss = loss_fn(model(x), y)
    loss.backward()
    opt.step()
    return loss


class Images:
    """Made-up images; `ms` of CPU work a sample, or of sleep when `asleep` (a slow disk)."""

    def __init__(self, n=100000, size=112, ms=0.0, asleep=False, ballast=0, threads=0):
        self.n, self.size, self.ms, self.asleep, self.threads = n, size, ms, asleep, threads
        self.ballast = os.urandom(ballast)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        import torch
        if self.threads:
            torch.set_num_threads(self.threads)
            a = torch.rand(384, 384)
            for _ in range(3):
                a = a @ a * 1e-3
        until = time.perf_counter() + self.ms / 1000
        if self.asleep:
            time.sleep(self.ms / 1000)
        else:
            while time.perf_counter() < until:
                sum(range(2000))
        return torch.full((3, self.size, self.size), float(i % 7)), i % 1000


def loader_steps(dataset, batch, device_batches=None, **kw):
    """Endless (x, y) on the GPU from a DataLoader."""
    import torch
    dl = torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True, **kw)
    while True:
        for x, y in dl:
            yield x.cuda(non_blocking=True), y.cuda(non_blocking=True)


def image_training(batches, width=64, pace=None):
    import torch
    model = convnet(width)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_fn = torch.nn.CrossEntropyLoss()
    for x, y in batches:
        train_step(model, opt, loss_fn, x.to(memory_format=torch.channels_last), y)
        yield


def fixed_images(batch=128, size=112):
    import torch
    x, y = torch.randn(batch, 3, size, size, device="cuda"), torch.randint(1000, (batch,), device="cuda")
    while True:
        yield x, y


def text_training(batch, seq, layers=4, width=512, each=None, compile=False, opt_kw=None, amp=True):
    """Yields after each step of a small GPT; `each(loss, model, step)` runs in the step."""
    import torch
    model = gpt(layers, width)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, **(opt_kw or {"fused": True}))
    ids = torch.randint(8192, (batch, seq + 1), device="cuda")
    run = torch.compile(model) if compile else model

    def loss_fn(out, y):
        return torch.nn.functional.cross_entropy(out.flatten(0, 1).float(), y.flatten())
    step = 0
    while True:
        loss = train_step(run, opt, loss_fn, ids[:, :-1], ids[:, 1:], amp)
        if each:
            each(loss, model, step)
        step += 1
        yield


# --- data supply and preprocessing -----------------------------------------------------------------------------------


@case("main-process-loading", also=("loader-starved", "main-thread-preprocess"))
def main_loading(fix):
    """num_workers=0 with 2 ms of CPU work a sample; fix: 12 workers."""
    kw = dict(num_workers=12, persistent_workers=True, pin_memory=True, prefetch_factor=4) if fix else dict(num_workers=0, pin_memory=True)
    return image_training(loader_steps(Images(ms=2.0), 64, **kw))


@case("too-few-workers", also=("loader-starved", "workers-cpu-bound"))
def few_workers(fix):
    """2 workers with 3 ms of CPU work a sample on 16 cores; fix: 14 workers."""
    return image_training(loader_steps(Images(ms=3.0), 64, num_workers=14 if fix else 2, persistent_workers=True, pin_memory=True,
                                       prefetch_factor=4))


@case("slow-storage", also=("loader-starved", "too-few-workers"))
def slow_storage(fix):
    """Each sample sleeps 12 ms, as a read from a far disk does; 4 workers; fix: data in memory."""
    return image_training(loader_steps(Images(ms=0.0 if fix else 12.0, asleep=True), 64, num_workers=4, persistent_workers=True,
                                       pin_memory=True, prefetch_factor=4))


@case("worker-respawn", also=("loader-starved",))
def respawn(fix):
    """Epochs of 12 batches with spawned workers that each receive a 100 MB data set; fix: persistent workers."""
    data = Images(n=64 * 12, ms=0.2, ballast=100 << 20)
    return image_training(loader_steps(data, 64, num_workers=4, persistent_workers=fix, pin_memory=True, multiprocessing_context="spawn"))


@case("cpu-oversubscribed", also=("workers-cpu-bound", "loader-starved"))
def oversubscribed(fix):
    """16 workers, each with as many threads as there are CPUs; fix: one thread each."""
    n = os.cpu_count() or 8
    return image_training(loader_steps(Images(threads=1 if fix else n), 64, num_workers=16, persistent_workers=True, pin_memory=True))


@case("pageable-copy", also=("blocking-copy",))
def pageable(fix):
    """154 MB of float images from pageable memory, copied blockingly; fix: pinned and non-blocking."""
    def batches():
        import torch
        x = torch.randn(256, 3, 224, 224)
        x = x.pin_memory() if fix else x
        y = torch.randint(1000, (256,), device="cuda")
        while True:
            yield x.to("cuda", non_blocking=fix), y
    return image_training(batches(), width=16)


@case("main-thread-preprocess", also=("user-code",))
def main_preprocess(fix):
    """20 ms of Python in the training loop before each step; fix: precomputed."""
    def each(loss, model, step):
        until = time.perf_counter() + (0 if fix else 0.020)
        while time.perf_counter() < until:
            sum(range(1000))
    return text_training(16, 256, each=each)


# --- memory and batch ------------------------------------------------------------------------------------------------


@case("allocator-thrash")
def empty_cache(fix):
    """torch.cuda.empty_cache() in each step; fix: not called."""
    import torch

    def each(loss, model, step):
        if not fix:
            torch.cuda.empty_cache()
    return text_training(16, 256, each=each)


@case("launch-bound", also=("batch-too-small",))
def tiny_batch(fix):
    """A 12-layer transformer of width 256 at batch 1; fix: torch.compile with CUDA graphs would do; here a batch of 32."""
    return text_training(32 if fix else 1, 64, layers=12, width=256)


# --- kernels ---------------------------------------------------------------------------------------------------------


@case("host-sync")
def item_sync(fix):
    """.item() on the norm of every gradient in each step; fix: none."""
    def each(loss, model, step):
        if not fix:
            sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)
    return text_training(8, 128, layers=6, each=each)


@case("none", also=("tensor-cores-idle", "memory-bandwidth-bound"))
def sync_but_busy(fix):
    """One .item() a step with a GPU that is busy all the time: syncs must not be blamed."""
    import torch
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def run():
        while True:
            b = a
            for _ in range(10):
                b = (b @ a) * 1e-2
            if not fix:
                b[0, 0].item()
            yield
    return run()


@case("unfused-optimizer", also=("launch-bound",))
def slow_adam(fix):
    """Adam over 300 small tensors without foreach or fused; fix: fused."""
    import torch
    ps = [torch.nn.Parameter(torch.randn(64, 64, device="cuda")) for _ in range(300)]
    for p in ps:
        p.grad = torch.randn_like(p)
    opt = torch.optim.Adam(ps, fused=True) if fix else torch.optim.Adam(ps, foreach=False, fused=False)

    def run():
        while True:
            opt.step()
            yield
    return run()


@case("tensor-cores-idle")
def fp32_matmul(fix):
    """fp32 matmuls without TF32; fix: TF32."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = fix
    a = torch.randn(4096, 4096, device="cuda")

    def run():
        while True:
            b = a
            for _ in range(5):
                b = (b @ a) * 1e-2
            torch.cuda.synchronize()
            yield
    return run()


# --- outside ---------------------------------------------------------------------------------------------------------


@case("checkpoint")
def checkpoint(fix):
    """A checkpoint every 5 steps, written and synced in the loop; fix: every 500."""
    import torch
    path = os.path.join(tempfile.mkdtemp(), "c.pt")

    def each(loss, model, step):
        if step % (500 if fix else 5) == 4:
            with open(path, "wb") as f:
                torch.save(model.state_dict(), f)
                f.flush()
                os.fsync(f.fileno())
    return text_training(16, 256, layers=8, width=768, each=each)


@case("none", also=("memory-bandwidth-bound", "memory-bound-by-nature", "tensor-cores-idle"))
def healthy_gpt(fix):
    """A GPT that keeps the GPU busy. Nothing to fix; both variants are the same."""
    return text_training(32, 512, layers=8, width=1024)


@case("none", also=("memory-bound-by-nature", "memory-bandwidth-bound", "launch-bound"))
def embedding(fix):
    """Embedding bags: memory-bound by nature."""
    import torch
    emb = torch.nn.EmbeddingBag(4_000_000, 128, mode="sum").cuda()
    ids = torch.randint(4_000_000, (8192, 64), device="cuda")

    def run():
        while True:
            with torch.no_grad():
                for _ in range(20):
                    emb(ids)
            yield
    return run()


# --- the runner of one case ------------------------------------------------------------------------------------------


def measure(steps, seconds, warm_up):
    import torch
    for _ in range(warm_up):
        next(steps)
    torch.cuda.synchronize()
    n, t0, cpu0 = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() - t0 < seconds:
        next(steps)
        n += 1
        if n % 50 == 0 and n < 500:  # let the host not run ahead without bound
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    wall, cpu = time.perf_counter() - t0, time.thread_time() - cpu0
    return {"steps": n, "step_ms": round(wall / max(n, 1) * 1e3, 4), "cpu_ms": round(cpu / max(n, 1) * 1e3, 4)}


def main():
    p = argparse.ArgumentParser(description="planted bottlenecks", usage=__doc__.split("\n\n")[1])
    p.add_argument("case")
    p.add_argument("variant", nargs="?", default="base", choices=("base", "fix"))
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--warm-up", type=int, default=5)
    a = p.parse_args()
    if a.case == "list":
        for name, c in CASES.items():
            print(f"{name}\t{c['expected']}\t{','.join(c['also'])}\t{c['doc'].splitlines()[0]}")
        return 0
    if a.case not in CASES:
        print(f"no case {a.case}", file=sys.stderr)
        return 2
    torch_mod().manual_seed(0)
    steps = CASES[a.case]["fn"](a.variant == "fix")
    out = {"case": a.case, "variant": a.variant}
    out.update(measure(steps, a.seconds, a.warm_up))
    print(json.dumps(out), flush=True)
    del steps
    gc.collect()
    return 0


if __name__ == "__main__":
    sys.exit(main())
