"""Copies between host and GPU."""
import itertools

from parts import F, Block, case, dim, image_job, image_step, nn, on_gpu, torch

QUIET = ["launch-bound", "host-sync", "loader-starved", "batch-too-small"]


def float_images(batch, side=224, count=3):
    """Batches of float images in ordinary memory, every page written."""
    return [torch.full((batch, 3, dim(side), dim(side)), 0.1 * i) for i in range(1, count + 1)]


@case(right=["pageable-copy", "blocking-copy"], silent=QUIET)
def pageable_big(fixed):
    """154 MB of float images a step from pageable memory; fix: pinned, and non_blocking=True."""
    batches = float_images(256)
    if fixed:
        batches = [x.pin_memory() for x in batches]
    model, opt = image_job(32)
    y = torch.randint(1000, (256,), device="cuda")
    for x in itertools.cycle(batches):
        x = x.to("cuda", non_blocking=fixed)
        image_step(model, opt, x.to(memory_format=torch.channels_last), y)
        yield 256


@case(right=["pageable-copy"], silent=["loader-starved", "batch-too-small"])
def pageable_small(fixed):
    """4 MB of sound features a step from pageable memory: the copy waits for the step before; fix: pinned, non_blocking."""
    batches = [torch.full((16, dim(512), 128), 0.1 * i) for i in range(1, 5)]
    if fixed:
        batches = [x.pin_memory() for x in batches]
    width = dim(768)
    model = on_gpu(lambda: nn.Sequential(nn.Linear(128, width), *[Block(width) for _ in range(8)], nn.Linear(width, 128)))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for x in itertools.cycle(batches):
        x = x.to("cuda", non_blocking=fixed)
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(x)
        F.mse_loss(out.float(), x).backward()
        opt.step()
        yield len(x)


def prefetch(batches):
    """Copies the next batch on a stream of its own while this one is used."""
    stream, waiting = torch.cuda.Stream(), None
    for x in batches:
        with torch.cuda.stream(stream):
            moved = x.to("cuda", non_blocking=True)
            done = stream.record_event()
        if waiting is not None:
            torch.cuda.current_stream().wait_event(waiting[1])
            waiting[0].record_stream(torch.cuda.current_stream())
            yield waiting[0]
        waiting = moved, done


@case(right=["blocking-copy"], silent=["loader-starved", "batch-too-small", "pageable-copy"])
def pinned_blocking(fixed):
    """154 MB a step from pinned memory, but the host waits for the copy; fix: copied ahead on a second stream."""
    batches = itertools.cycle([x.pin_memory() for x in float_images(256)])
    model, opt = image_job(64)
    y = torch.randint(1000, (256,), device="cuda")
    for x in prefetch(batches) if fixed else batches:
        x = x.to("cuda")
        image_step(model, opt, x.to(memory_format=torch.channels_last), y)
        yield 256


@case(right=["blocking-copy", "pageable-copy"], silent=["loader-starved", "batch-too-small", "main-thread-preprocess"], period=20)
def big_cpu_result(fixed):
    """Inference that brings 100 MB of results to the host in each step; fix: in every 20th."""
    rows, width = 6144, dim(4096)
    layers = [torch.randn(width, width, device="cuda", dtype=torch.bfloat16) / width ** 0.5 for _ in range(12)]
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    for step in itertools.count():
        h = x
        for w in layers:
            h = F.relu(h @ w)
        if not fixed or step % 20 == 0:
            result = h.float().cpu()
            assert result.shape[0] == rows
        yield rows


@case(right=["copy-link-bound"], silent=["launch-bound", "host-sync", "loader-starved", "batch-too-small", "pageable-copy"])
def copy_link(fixed):
    """Weights stay in pinned host memory and travel to the GPU in each step, 315 MB; fix: they live there."""
    width = dim(5120)
    weights = [(torch.randn(width, width, device="cuda") / width ** 0.5).to(torch.bfloat16).cpu().pin_memory() for _ in range(6)]
    if fixed:
        weights = [w.cuda() for w in weights]
    x = torch.randn(4096, width, device="cuda", dtype=torch.bfloat16)
    while True:
        h = x
        for w in weights:
            h = F.relu(h @ w.to("cuda", non_blocking=True))
        yield len(x)


@case(right=["host-allocation", "slow-host-op", "main-thread-preprocess"], silent=["loader-starved", "batch-too-small", "host-sync"])
def pin_in_loop(fixed):
    """Each step pins a fresh copy of its batch (77 MB) in the training thread; fix: pinned once."""
    batches = float_images(128)
    if fixed:
        batches = [x.pin_memory() for x in batches]
    model, opt = image_job(32)
    y = torch.randint(1000, (128,), device="cuda")
    for x in itertools.cycle(batches):
        if not fixed:
            x = x.pin_memory()
        x = x.to("cuda", non_blocking=True)
        image_step(model, opt, x.to(memory_format=torch.channels_last), y)
        yield 128
