"""What is done between steps, and jobs with nothing to fix."""
import itertools
import os
import shutil
import tempfile

from parts import EncodedImages, case, dim, forever, image_job, image_step, loader, text_job, text_step, torch, train_on

SOUND = ["launch-bound", "host-sync", "loader-starved", "batch-too-small", "pageable-copy", "main-thread-preprocess"]


@case(right=["checkpoint"], silent=["loader-starved", "batch-too-small", "launch-bound"], period=5, active=15,
      warm_up=5, min_steps=10)
def checkpoint(fixed):
    """Saves model and optimizer, 0.5 GB, every 5 steps; fix: every 1000."""
    folder = tempfile.mkdtemp(prefix="zoo")
    model, opt, ids = text_job(16, 256, layers=4, width=768)
    every = 1000 if fixed else 5
    try:
        for step in itertools.count(1):
            text_step(model, opt, ids)
            if step % every == 0:
                torch.save({"step": step, "model": model.state_dict(), "optimizer": opt.state_dict()}, os.path.join(folder, "last.pt"))
            yield len(ids)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@case(right=["evaluation"], silent=["loader-starved", "batch-too-small", "launch-bound", "checkpoint"], period=5, active=20,
      warm_up=10)
def evaluation(fixed):
    """A metric in plain Python (edit distances) every 5 steps; fix: never."""
    model, opt, ids = text_job(16, 256, layers=8, width=1024)
    scores = []
    for step in itertools.count(1):
        text_step(model, opt, ids)
        if not fixed and step % 5 == 0:
            with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
                guess = model(ids[:12, :-1]).argmax(-1).cpu().tolist()
            truth = ids[:12, 1:].cpu().tolist()
            scores.append(sum(edit_distance(g, t) for g, t in zip(guess, truth)))
        yield len(ids)


@case(right=["evaluation"], silent=["loader-starved", "batch-too-small", "launch-bound"], period=5, active=20,
      warm_up=10)
def logging_hist(fixed):
    """Histograms of all weights, made on the CPU, every 5 steps; fix: never."""
    model, opt, ids = text_job(16, 256, layers=6, width=768)
    board = {}
    for step in itertools.count(1):
        text_step(model, opt, ids)
        if not fixed and step % 5 == 0:
            for name, p in model.named_parameters():
                board[name] = torch.histc(p.detach().cpu(), bins=64)
        yield len(ids)


# --- nothing to fix ---------------------------------------------------------------------------------------------------


@case(right=["none"], silent=SOUND, twin=False)
def healthy_gpt(fixed):
    """A GPT in bf16 with a batch that fills the GPU."""
    model, opt, ids = text_job(32, 512, layers=8, width=1024)
    while True:
        text_step(model, opt, ids)
        yield len(ids)


@case(right=["none", "memory-bandwidth-bound"], silent=SOUND, twin=False)
def healthy_conv(fixed):
    """A residual network in bf16, channels_last, pinned batches copied ahead."""
    from cases_copy import prefetch
    side, batch = dim(224), 192
    pool = [torch.randint(256, (batch, 3, side, side), dtype=torch.uint8).pin_memory() for _ in range(4)]
    model, opt = image_job(128)
    y = torch.randint(1000, (batch,), device="cuda")
    for x in prefetch(itertools.cycle(pool)):
        x = x.to(memory_format=torch.channels_last).float().div(255)
        image_step(model, opt, x, y)
        yield batch


@case(right=["none", "memory-bandwidth-bound"], silent=SOUND, twin=False, warm_up=20)
def healthy_loader(fixed):
    """12 workers keep well ahead of a large model on small images."""
    yield from train_on(forever(loader(EncodedImages(side=64), 64, 12)), width=512, patch=2)
