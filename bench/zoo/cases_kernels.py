"""Kernels, precision, memory, batch size and shapes."""
import gc
import itertools
import random

from parts import F, Skip, case, dim, image_job, image_step, nn, on_gpu, text_job, text_step, torch

CALM = ["launch-bound", "host-sync", "loader-starved", "pageable-copy"]


# --- precision --------------------------------------------------------------------------------------------------------


def mlp_training(width, rows, layers, bf16=False):
    model = on_gpu(lambda: nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(width, width), nn.ReLU())]))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(rows, width, device="cuda"), torch.randn(rows, width, device="cuda")
    while True:
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
            out = model(x)
        F.mse_loss(out.float(), y).backward()
        opt.step()
        yield rows


@case(right=["tensor-cores-idle"], silent=CALM, fix_right=["none", "memory-bandwidth-bound"])
def fp32_matmul(fixed):
    """A wide network in fp32 with TF32 off; fix: torch.set_float32_matmul_precision("high")."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    try:
        yield from mlp_training(dim(8192), 1536, 2)
    finally:
        torch.set_float32_matmul_precision("highest")


@case(right=["tensor-cores-idle"], silent=CALM, fix_right=["none", "memory-bandwidth-bound"])
def fp32_mlp(fixed):
    """A network 4096 wide, batch 4096, in fp32; fix: bf16 autocast."""
    torch.set_float32_matmul_precision("highest")
    yield from mlp_training(dim(4096), 4096, 4, bf16=fixed)


@case(right=["tensor-cores-idle"], silent=CALM, fix_right=["none", "memory-bandwidth-bound", "tensor-cores-idle"])
def fp32_conv(fixed):
    """A residual network in fp32 with torch.backends.cudnn.allow_tf32 = False; fix: True."""
    torch.backends.cudnn.allow_tf32 = fixed
    try:
        model, opt = image_job(128, channels_last=False)
        x = torch.randn(64, 3, dim(224), dim(224), device="cuda")
        y = torch.randint(1000, (64,), device="cuda")
        while True:
            image_step(model, opt, x, y, bf16=False)
            yield 64
    finally:
        torch.backends.cudnn.allow_tf32 = True  # the default


# --- memory bandwidth -------------------------------------------------------------------------------------------------


@case(right=["none", "memory-bound-by-nature", "memory-bandwidth-bound"], silent=CALM + ["batch-too-small"], twin=False)
def embedding(fixed):
    """Sums of rows of a 2 GB table: bound by memory by nature, nothing to fix."""
    rows = dim(4_000_000)
    bag = on_gpu(lambda: nn.EmbeddingBag(rows, 128, mode="sum"))
    ids = torch.randint(rows, (8192, 64), device="cuda")
    while True:
        with torch.no_grad():
            for _ in range(60):
                bag(ids)
        yield len(ids)


def norm_by_hand(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    var = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(var + 1e-5) * weight + bias


def gelu_by_hand(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


@case(right=["memory-bandwidth-bound"], silent=CALM + ["batch-too-small"], fix_right=["none", "memory-bandwidth-bound"])
def elementwise_chain(fixed):
    """LayerNorm and GELU written out as single operations on large tensors; fix: the built-in functions."""
    width = dim(4096)
    x = torch.randn(8192, width, device="cuda")
    weight, bias = torch.ones(width, device="cuda"), torch.zeros(width, device="cuda")
    while True:
        with torch.no_grad():
            h = x
            for _ in range(6):
                if fixed:
                    h = F.gelu(F.layer_norm(h, (width,), weight, bias), approximate="tanh")
                else:
                    h = gelu_by_hand(norm_by_hand(h, weight, bias))
        yield len(x)


# --- allocator --------------------------------------------------------------------------------------------------------


@case(right=["allocator-thrash"], silent=["loader-starved", "pageable-copy", "batch-too-small"])
def alloc_thrash(fixed):
    """torch.cuda.empty_cache() after each step; fix: not called."""
    model, opt = image_job(64)
    x = torch.randn(128, 3, dim(224), dim(224), device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(1000, (128,), device="cuda")
    while True:
        image_step(model, opt, x, y)
        if not fixed:
            torch.cuda.empty_cache()
        yield 128


@case(right=["allocator-thrash", "main-thread-preprocess"], silent=["loader-starved", "pageable-copy"],
      fix_right=["none", "shape-churn"])
def alloc_thrash_seq(fixed):
    """Random lengths, and gc.collect() with empty_cache() after each step against running out; fix: neither."""
    model, opt, _ = text_job(1, 8, layers=6, width=768)
    lengths = random.Random(5)
    while True:
        ids = torch.randint(8192, (16, dim(lengths.randrange(128, 768, 16))), device="cuda")
        text_step(model, opt, ids)
        if not fixed:
            gc.collect()
            torch.cuda.empty_cache()
        yield 16


# --- batch and shapes -------------------------------------------------------------------------------------------------


@case(right=["batch-too-small", "launch-bound"], silent=["host-sync", "loader-starved", "pageable-copy"])
def batch_small(fixed):
    """Batch 2 on a GPU that takes 64 in hardly more time; fix: 64. Compare samples a second."""
    batch = 64 if fixed else 2
    model, opt, ids = text_job(batch, 128, layers=8, width=512)
    while True:
        text_step(model, opt, ids)
        yield batch


def texts_of_all_lengths(count=2048):
    draw = random.Random(7)
    return [min(1000, 32 + int(draw.expovariate(1 / 160))) for _ in range(count)]


@case(right=["shape-churn", "none"], silent=["host-sync", "loader-starved", "pageable-copy"], warm_up=12, min_steps=40,
      fix_right=["none", "shape-churn"])
def shape_churn(fixed):
    """Random batches, each padded to its longest text; fix: texts of like length together, lengths in steps of 64."""
    model, opt, _ = text_job(1, 8, layers=8, width=1024)
    lengths = texts_of_all_lengths()
    if fixed:
        lengths.sort()
    batches = [max(lengths[i:i + 16]) for i in range(0, len(lengths), 16)]
    if fixed:
        batches = [-(-n // 64) * 64 for n in batches]
        random.Random(8).shuffle(batches)
    for n in itertools.cycle(batches):
        text_step(model, opt, torch.randint(8192, (16, dim(n)), device="cuda"))
        yield 16


SIZES = random.Random(3)  # goes on from run to run, so that the tuner's memory of sizes does not help the next


@case(right=["autotune-loop", "slow-host-op"], silent=["loader-starved", "host-sync", "pageable-copy"], min_steps=10, warm_up=3,
      fix_right=["none", "slow-host-op", "shape-churn"])
def autotune(fixed):
    """cudnn.benchmark = True while images have a new size in each step; fix: False."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = not fixed
    try:
        model = on_gpu(lambda: nn.Sequential(nn.Conv2d(3, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 128, 3),
                                             nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 1000)))
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        y = torch.randint(1000, (32,), device="cuda")
        while True:
            height, width = dim(8 * SIZES.randrange(20, 50)), dim(8 * SIZES.randrange(20, 50))
            image_step(model, opt, torch.randn(32, 3, height, width, device="cuda"), y)
            yield 32
    finally:
        torch.backends.cudnn.benchmark = before


LENGTHS = itertools.count(65, 8)


@case(right=["recompile"], silent=["loader-starved", "host-sync", "pageable-copy"], min_steps=6, warm_up=3, active=5,
      fix_right=["none", "launch-bound", "batch-too-small", "memory-bandwidth-bound"])
def recompile(fixed):
    """torch.compile(dynamic=False) and a new sequence length in each step; fix: dynamic=True."""
    try:
        import torch._dynamo
        import torch._inductor.config as inductor
    except ImportError as e:
        raise Skip(f"no torch.compile: {e}")
    torch._dynamo.reset()
    torch._dynamo.config.recompile_limit = 200
    torch._dynamo.config.automatic_dynamic_shapes = False
    inductor.force_disable_caches = True  # a cache on the disk would hide the cost in a second run
    inductor.compile_threads = 1
    width = dim(2048)
    model = on_gpu(lambda: nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(),
                                         nn.Linear(4 * width, width))).to(torch.bfloat16)
    quick = torch.compile(model, dynamic=fixed)
    try:
        with torch.no_grad():
            quick(torch.randn(8, 1024, width, device="cuda", dtype=torch.bfloat16))
    except Exception as e:
        raise Skip(f"torch.compile does not work here: {type(e).__name__}: {str(e)[:200]}")
    while True:
        x = torch.randn(8, next(LENGTHS), width, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            for _ in range(8):
                x = quick(x)
        yield 8
