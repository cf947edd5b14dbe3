#!/usr/bin/env python3
"""Training jobs for `gpuwhy sweep`, each with one curve that is known in kind. They print nothing: steps are found from outside.

    job.py loader --workers N    a vision transformer behind a loader that is bound by CPUs: a knee at a few workers
    job.py flat --workers N      the same model, batches that are ready at once: workers make no difference
    job.py memory --batch B      a fixed cost for each step and large activations: grows until GPU memory ends
    job.py gpt --batch B         a language model: the GPU is full at a few dozen sequences, long before its memory is
    job.py calibrate --workers N prints the --work with which N workers keep up with the model on this machine
    job.py ... --measure S       measures itself for S seconds after a warm-up, and prints steps/s: to compare with

Needs PyTorch and CUDA; sizes are for an H200. No data is fetched. JOB_SCALE=16 divides the sizes, to try the code.
"""
import argparse
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

SCALE = int(os.environ.get("JOB_SCALE", "1"))
CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"


class Pictures(Dataset):
    """Stored pictures of 320 x 320; random crop and resize, flip, `work` passes of a filter and normalisation on one CPU."""

    def __init__(self, ready, work):
        self.work = work
        torch.manual_seed(1)
        self.raw = torch.randint(0, 256, (64, 3, 320, 320), dtype=torch.uint8)
        self.ready = torch.randn(3, 224, 224) if ready else None

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        if self.ready is not None:
            return self.ready
        torch.set_num_threads(1)
        x = self.raw[i % len(self.raw)].float().div_(255)
        size = int(torch.randint(200, 320, ()))
        top, left = (int(torch.randint(0, 320 - size + 1, ())) for _ in range(2))
        x = x[:, top:top + size, left:left + size].unsqueeze(0)
        x = F.interpolate(x, (224, 224), mode="bilinear", align_corners=False)
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        for _ in range(self.work):
            x = F.avg_pool2d(x, 3, 1, 1)
        x = x.squeeze(0)
        return (x - 0.45) / 0.225


class Blocks(nn.Module):
    def __init__(self, width, layers, causal):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.causal = causal

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device) if self.causal else None
        return self.layers(x, mask=mask)


class Vision(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.blocks, self.head = Blocks(width, layers, False), nn.Linear(width, 1000)

    def forward(self, x):
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Language(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embed, self.blocks, self.head = nn.Embedding(8192, width), Blocks(width, layers, True), nn.Linear(width, 8192)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)))


def train(model, batches, loss_of):
    """Yields after each step."""
    model = model.to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **({"fused": True} if CUDA else {}))
    for x in batches:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=CUDA):
            loss = loss_of(model, x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield


def pictures(workers, ready, work):
    batch = 64 // SCALE or 1
    loader = DataLoader(Pictures(ready, work), batch_size=batch, num_workers=workers, pin_memory=CUDA, persistent_workers=False, shuffle=False)
    target = torch.zeros(batch, dtype=torch.long, device=DEVICE)
    model = Vision(1024 // SCALE // 64 * 64 or 64, 12)
    yield from train(model, loader, lambda m, x: F.cross_entropy(m(x.to(DEVICE, non_blocking=True)), target))


def language(batch):
    x = torch.randint(0, 8192, (batch, 512 // SCALE), device=DEVICE)
    model = Language(1024 // SCALE // 64 * 64 or 64, 12)
    yield from train(model, iter(lambda: x, None), lambda m, t: F.cross_entropy(m(t).flatten(0, 1).float(), t.flatten()))


class Activations(nn.Module):
    """Many small tensors to update (a fixed cost for each step), and activations of 220 MB a sample."""

    def __init__(self):
        super().__init__()
        self.small = nn.ParameterList([nn.Parameter(torch.randn(64)) for _ in range(1500 // SCALE)])
        self.scale = nn.ParameterList([nn.Parameter(torch.ones(1024)) for _ in range(55)])

    def forward(self, x):
        for w in self.scale:
            x = x * w  # keeps its input for the backward pass: 4 MB a sample
        return x.mean() + sum((p * p).mean() for p in self.small)


def memory(batch):
    model = Activations().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, foreach=False)
    x = torch.randn(batch, 1024 // SCALE, 1024, device=DEVICE)
    while True:
        model(x).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield


def calibrate(workers):
    """Passes of the filter with which so many workers keep up with the model: the CPUs and the GPU decide."""
    steps = pictures(2, True, 0)
    for _ in range(20):
        next(steps)
    sync = torch.cuda.synchronize if CUDA else (lambda: None)
    sync()
    begin = time.monotonic()
    for _ in range(20):
        next(steps)
    sync()
    step = (time.monotonic() - begin) / 20
    torch.set_num_threads(1)

    def sample(work):
        data = Pictures(False, work)
        data[0]
        begin = time.monotonic()
        for i in range(64):
            data[i]
        return (time.monotonic() - begin) / 64

    bare = sample(0)
    each = (sample(20) - bare) / 20
    work = max(0, round((workers * step / (64 // SCALE or 1) - bare) / each))
    print("%d" % work)
    sys.stderr.write("a step %.1f ms, a sample %.2f ms + %.3f ms a pass: %d passes\n" % (step * 1e3, bare * 1e3, each * 1e3, work))


def measure(steps, seconds):
    """Wall clock between two synchronisations, after as long a warm-up."""
    sync = torch.cuda.synchronize if CUDA else (lambda: None)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next(steps)
    sync()
    begin, n = time.monotonic(), 0
    while time.monotonic() < begin + seconds:
        next(steps)
        n += 1
    sync()
    print("%.4f steps/s" % (n / (time.monotonic() - begin)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("job", choices=("loader", "flat", "memory", "gpt", "calibrate"))
    p.add_argument("--workers", type=float, default=2)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--work", type=int, default=20, help="passes of a filter over each picture")
    p.add_argument("--measure", type=float, default=0, metavar="S")
    a = p.parse_args()
    if a.job == "calibrate":
        calibrate(a.workers)
        return
    steps = {"loader": lambda: pictures(int(a.workers), False, a.work), "flat": lambda: pictures(int(a.workers), True, 0), "memory": lambda: memory(a.batch),
             "gpt": lambda: language(a.batch)}[a.job]()
    if a.measure:
        measure(steps, a.measure)
        return
    for _ in steps:
        pass


if __name__ == "__main__":
    main()
