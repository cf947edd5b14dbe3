"""The host holds the GPU up: waits, launches, the optimizer, debugging modes, Python threads."""
import itertools
import json
import threading
import time

from parts import F, Block, Module, case, dim, nn, on_gpu, text_job, text_step, torch

CALM = ["loader-starved", "batch-too-small", "pageable-copy"]


# --- waiting for the GPU ----------------------------------------------------------------------------------------------


@case(right=["host-sync"], silent=CALM)
def item_sync(fixed):
    """Reads the loss and the size of each layer's output in each step; fix: every 50 steps."""
    model, opt, ids = text_job(16, 256, layers=8, width=1024)
    sizes = {}

    def watch(name):
        def hook(module, args, out):
            size = out.detach().float().norm()
            sizes[name] = size if fixed else size.item()
        return hook

    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.LayerNorm)):
            module.register_forward_hook(watch(name))
    log = []
    for step in itertools.count():
        loss = text_step(model, opt, ids)
        if not fixed or step % 50 == 0:
            log.append((loss.item(), max(float(s) for s in sizes.values())))
        yield len(ids)


@case(right=["host-sync"], silent=CALM)
def item_sync_params(fixed):
    """Adds up the gradient norms of 150 parameters with .item() in each step; fix: on the GPU, read every 50 steps."""
    model, opt, ids = text_job(16, 256, layers=12, width=768)
    log = []
    for step in itertools.count():
        text_step(model, opt, ids)
        if not fixed:
            log.append(sum(p.grad.norm().item() ** 2 for p in model.parameters()) ** 0.5)
        elif step % 50 == 0:
            log.append(torch.stack([p.grad.norm() for p in model.parameters()]).norm().item())
        yield len(ids)


class Guarded(Block):
    """A block that checks its values and works on the tokens that are not padding."""
    fixed = False

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        keep = self.keep[:, :x.shape[1]]
        if self.fixed:
            return x + self.mlp(self.ln2(x)) * keep[..., None]
        if torch.isnan(x).any():
            raise FloatingPointError("not a number")
        out = x.clone()
        tokens = x[keep]
        out[keep] = tokens + self.mlp(self.ln2(tokens)).float()
        return out


@case(right=["host-sync"], silent=CALM)
def nonzero_sync(fixed):
    """Boolean indexing and `if isnan(x).any()` in each layer; fix: the mask is multiplied in, no check."""
    model, opt, ids = text_job(16, 256, layers=8, width=768, block=Guarded)
    keep = torch.rand(ids.shape, device="cuda") < 0.94
    for block in model.blocks:
        block.fixed, block.keep = fixed, keep
    while True:
        text_step(model, opt, ids)
        yield len(ids)


@case(right=["host-sync"], silent=CALM)
def explicit_sync(fixed):
    """torch.cuda.synchronize() after each layer, to time them; fix: gone."""
    model, opt, ids = text_job(16, 256, layers=8, width=1024)
    ends = []

    def stamp(module, args, out):
        torch.cuda.synchronize()
        ends.append(time.perf_counter())

    if not fixed:
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.LayerNorm, nn.GELU)):
                module.register_forward_hook(stamp)
    while True:
        ends.clear()
        text_step(model, opt, ids)
        yield len(ids)


@case(right=["none"], silent=["host-sync", "launch-bound", "loader-starved", "batch-too-small", "pageable-copy"])
def sync_busy(fixed):
    """A trap: a wait after each of 40 products, but they take over a millisecond each and the GPU hardly idles."""
    n = dim(8192)
    a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16) / n ** 0.5
    while True:
        b = a
        for _ in range(40):
            b = b @ a
            if not fixed:
                b[0, 0].item()
        yield 1


# --- launches ---------------------------------------------------------------------------------------------------------


@case(right=["unfused-optimizer", "launch-bound"], silent=["host-sync", "loader-starved", "pageable-copy"], active=6,
      fix_right=["none", "memory-bandwidth-bound", "launch-bound"])
def tiny_kernels(fixed):
    """Adam over 400 small tensors, one at a time; fix: fused=True."""
    params = [nn.Parameter(torch.randn(64, 64, device="cuda")) for _ in range(400)]
    for p in params:
        p.grad = torch.randn_like(p)
    opt = torch.optim.Adam(params, fused=True) if fixed else torch.optim.Adam(params, foreach=False, fused=False)
    while True:
        opt.step()
        yield 1


@case(right=["unfused-optimizer", "launch-bound"], silent=["host-sync", "loader-starved", "pageable-copy"])
def sgd_unfused(fixed):
    """A transformer trained with SGD, momentum and weight decay, foreach=False; fix: foreach=True."""
    def sgd(params):
        return torch.optim.SGD(params, lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=fixed)
    model, opt, ids = text_job(8, 128, layers=12, width=512, optimizer=sgd)
    while True:
        text_step(model, opt, ids)
        yield len(ids)


def captured(work):
    """Runs `work` three times on a side stream, then records it as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


@case(right=["launch-bound", "batch-too-small"], silent=["host-sync", "loader-starved", "pageable-copy"])
def launch_bound(fixed):
    """A 12-layer transformer of width 256, 64 tokens, batch 1; fix: the whole step as one CUDA graph."""
    model = on_gpu(lambda: nn.Sequential(*[Block(256) for _ in range(12)]))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)
    x, y = torch.randn(1, 64, 256, device="cuda"), torch.randn(1, 64, 256, device="cuda")

    def train():
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x).float(), y)
        loss.backward()
        opt.step()

    if fixed:
        train = captured(train).replay
    while True:
        train()
        yield 1


class CachedBlock(Module):
    """A decoder block for one token at a time; keys and values stay in a cache of fixed size."""

    def __init__(self, width, longest):
        super().__init__()
        self.heads = max(1, width // 64)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("k", torch.zeros(self.heads, longest, width // self.heads))
        self.register_buffer("v", torch.zeros(self.heads, longest, width // self.heads))

    def forward(self, x, at, future):
        q, k, v = self.qkv(self.ln1(x)).view(3, self.heads, 1, -1).unbind(0)
        self.k.index_copy_(1, at, k)
        self.v.index_copy_(1, at, v)
        scores = (q @ self.k.transpose(1, 2)) * q.shape[-1] ** -0.5
        y = scores.masked_fill(future, float("-inf")).softmax(-1) @ self.v
        x = x + self.proj(y.reshape(1, -1))
        return x + self.mlp(self.ln2(x))


@case(right=["launch-bound", "batch-too-small"], silent=["host-sync", "loader-starved", "pageable-copy"])
def launch_bound_infer(fixed):
    """Greedy decoding of one sequence, 8 tokens a step, 12 layers of width 768; fix: each token is a CUDA graph."""
    longest, width = 512, dim(768)
    with torch.no_grad():
        emb = on_gpu(lambda: nn.Embedding(8192, width)).to(torch.bfloat16)
        blocks = on_gpu(lambda: nn.ModuleList([CachedBlock(width, longest) for _ in range(12)])).to(torch.bfloat16)
        token, at = torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
        places = torch.arange(longest, device="cuda")

    def decode():
        with torch.no_grad():
            x, future = emb(token), places > at
            for block in blocks:
                x = block(x, at, future)
            token.copy_((x @ emb.weight.T).argmax(-1))
            at.add_(1).remainder_(longest)

    if fixed:
        decode = captured(decode).replay
    while True:
        for _ in range(8):
            decode()
        yield 8


# --- debugging modes and threads --------------------------------------------------------------------------------------


@case(right=["debug-mode", "launch-bound"], live=["debug-mode"], silent=["loader-starved", "batch-too-small", "pageable-copy"],
      env={"CUDA_LAUNCH_BLOCKING": "1"})
def launch_blocking(fixed):
    """CUDA_LAUNCH_BLOCKING=1 was left in the environment; fix: unset."""
    model, opt, ids = text_job(16, 256, layers=8, width=768)
    while True:
        text_step(model, opt, ids)
        yield len(ids)


@case(right=["debug-mode", "host-sync"], silent=["loader-starved", "batch-too-small", "pageable-copy"])
def anomaly(fixed):
    """torch.autograd.set_detect_anomaly(True) was left on; fix: off."""
    model, opt, ids = text_job(16, 256, layers=8, width=512)
    torch.autograd.set_detect_anomaly(not fixed)
    try:
        while True:
            text_step(model, opt, ids)
            yield len(ids)
    finally:
        torch.autograd.set_detect_anomaly(False)


def write_log(stop):
    """Formats a few milliseconds of log lines, rests as long, again."""
    n = 0
    while not stop.is_set():
        end = time.perf_counter() + 0.004
        while time.perf_counter() < end:
            n += 1
            line = ", ".join(f"{k}={v!r}" for k, v in {"step": n, "loss": 1 / n, "rate": n * 0.5}.items())
            json.loads(json.dumps({"line": line}))
        time.sleep(0.004)


@case(right=["gil-contention", "launch-bound"], live=["gil-contention"], silent=["host-sync", "loader-starved", "pageable-copy"])
def gil_thread(fixed):
    """A thread formats log lines in Python beside the loop, and both need Python's lock; fix: no thread."""
    model, opt, ids = text_job(8, 128, layers=6, width=512)
    stop = threading.Event()
    writer = threading.Thread(target=write_log, args=(stop,), daemon=True)
    try:
        if not fixed:
            writer.start()
        while True:
            text_step(model, opt, ids)
            yield len(ids)
    finally:
        stop.set()
        if not fixed:
            writer.join(1)
