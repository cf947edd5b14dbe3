"""What the cases share: how a case is registered, two models, made-up data and the two plain training loops.

A case is a generator function `name(fixed)`. It sets up its job, then loops for ever: one training step, `yield` of the
number of samples in it. `fixed` selects the repaired twin. Clean-up goes into `finally`: the generator is closed.
This file imports without PyTorch, so that the list of cases can be printed anywhere.
"""
import itertools
import os
import zlib

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    torch = nn = F = None

Module = nn.Module if nn else object
CASES = {}
SCALE = int(os.environ.get("ZOO_SCALE", "1"))  # divides the sizes below: to try the code on a small machine


class Skip(Exception):
    """The case cannot run here; the message says why."""


class Case:
    """One row: what is right to say about this job, and how long it must be watched."""

    def __init__(self, fn, right, silent, live, fix_right, period, active, warm_up, min_steps, twin, env):
        self.fn, self.name, self.doc = fn, fn.__name__, " ".join((fn.__doc__ or "").split())
        self.right, self.silent, self.live = list(right), list(silent), list(live)
        self.fix_right = list(fix_right)
        self.period, self.active, self.warm_up, self.min_steps = period, active, warm_up, min_steps
        self.twin, self.env = twin, dict(env)

    def warm_up_steps(self, fixed):
        return self.warm_up[1 if fixed else 0] if isinstance(self.warm_up, tuple) else self.warm_up


def case(right, silent=(), live=(), fix_right=("none",), period=1, active=8, warm_up=5, min_steps=20, twin=True, env=()):
    """Registers a case.

    right      finding ids that are right for a torch.profiler trace of it, best first
    silent     finding ids that must not promise more than 1.10
    live       finding ids that are better still, and need live recording (workers, storage, threads)
    fix_right  what is right for the fixed twin, should its GPU be at least 90 % busy
    period     steps after which the job repeats itself; timing covers whole periods
    active     steps in a trace
    warm_up    steps before timing; (base, fix) where they differ
    min_steps  steps to time at least
    twin       False when there is nothing to fix
    env        environment of the base variant, needed before the process starts
    """
    def register(fn):
        CASES[fn.__name__] = Case(fn, right, silent, live, fix_right, period, active, warm_up, min_steps, twin, env)
        return fn
    return register


def dim(n):
    return max(8, n // SCALE)


def on_gpu(make):
    """Builds a module directly on the GPU: its random weights take seconds to make on a CPU."""
    with torch.device("cuda"):
        return make()


# --- models -----------------------------------------------------------------------------------------------------------


class Block(Module):
    """A pre-norm transformer block."""

    def __init__(self, width):
        super().__init__()
        self.heads = max(1, width // 64)
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(Module):
    def __init__(self, layers, width, vocab=8192, longest=1024, block=Block):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([block(width) for _ in range(layers)])
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Residual(Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
                                  nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b))
        self.skip = nn.Conv2d(a, b, 1, stride, bias=False) if a != b or stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class ConvNet(Module):
    """A small residual network: a patch stem and three stages of two blocks."""

    def __init__(self, width=64, patch=4, classes=1000):
        super().__init__()
        stages, a = [nn.Conv2d(3, width, patch, patch)], width
        for stride, b in ((1, width), (2, 2 * width), (2, 4 * width)):
            stages += [Residual(a, b, stride), Residual(b, b, 1)]
            a = b
        self.body = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(a, classes))

    def forward(self, x):
        return self.body(x)


# --- text training ----------------------------------------------------------------------------------------------------


def text_job(batch, seq, layers=8, width=512, optimizer=None, block=Block):
    """Model, optimizer and one batch of token ids on the GPU."""
    model = on_gpu(lambda: GPT(layers, dim(width), block=block))
    if optimizer is None:
        opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    else:
        opt = optimizer(model.parameters())
    return model, opt, torch.randint(8192, (batch, dim(seq) + 1), device="cuda")


def text_step(model, opt, ids):
    """One training step in bf16; gives the loss, still on the GPU."""
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())
    loss.backward()
    opt.step()
    return loss


# --- image training ---------------------------------------------------------------------------------------------------


class EncodedImages:
    """Images as PNG keeps them, deflated differences, decoded in Python: about 3 ms of CPU a sample at side 112."""

    def __init__(self, count=200_000, side=112, kept=64):
        self.count, self.side = count, side
        self.files = [zlib.compress(os.urandom(3 * side * side), 1) for _ in range(kept)]

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        deltas = zlib.decompress(self.files[i % len(self.files)])
        pixels = bytearray(v & 255 for v in itertools.accumulate(deltas))
        return torch.frombuffer(pixels, dtype=torch.uint8).view(3, self.side, self.side), i % 1000


def loader(dataset, batch, workers, **more):
    """A DataLoader as people write it; settings of worker processes only where there are any."""
    if workers:
        more.setdefault("persistent_workers", True)
    return torch.utils.data.DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True, num_workers=workers,
                                       pin_memory=True, **more)


def forever(batches):
    while True:
        yield from batches


def image_job(width=64, patch=4, channels_last=True):
    model = on_gpu(lambda: ConvNet(dim(width), patch))
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def image_step(model, opt, x, y, bf16=True):
    """One training step on a batch that is on the GPU."""
    opt.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=bf16):
        loss = F.cross_entropy(model(x), y)
    loss.backward()
    opt.step()
    return loss


def train_on(batches, width=64, patch=4):
    """The plain loop over a loader of uint8 images in host memory; they are normalised on the GPU."""
    model, opt = image_job(width, patch)
    for x, y in batches:
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        x = x.to(memory_format=torch.channels_last).float().div(255)
        image_step(model, opt, x, y)
        yield len(x)
