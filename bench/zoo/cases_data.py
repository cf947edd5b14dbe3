"""Data supply and CPU preprocessing: the GPU waits for the next batch."""
import itertools
import json
import os
import re
import shutil
import tempfile
import time

from parts import EncodedImages, case, dim, forever, image_job, image_step, loader, text_job, text_step, torch, train_on


# --- the loader -------------------------------------------------------------------------------------------------------


@case(right=["main-process-loading", "loader-starved"], silent=["host-sync", "launch-bound", "batch-too-small"],
      warm_up=(4, 40))
def main_loading(fixed):
    """Images are decoded in the training process, num_workers=0; fix: 12 workers."""
    yield from train_on(forever(loader(EncodedImages(), 32, 12 if fixed else 0)))


@case(right=["loader-starved"], live=["too-few-workers", "workers-cpu-bound"],
      silent=["host-sync", "launch-bound", "batch-too-small", "main-thread-preprocess"], warm_up=(8, 40))
def starved_workers(fixed):
    """Two workers decode, the other cores are idle; fix: 12 workers."""
    yield from train_on(forever(loader(EncodedImages(), 32, 12 if fixed else 2)))


class ImageFolder:
    """Raw images in files. Reads go past the page cache, with the latency of far storage."""

    def __init__(self, folder, side=112, files=128, latency=0.010, count=200_000):
        self.side, self.latency, self.count, self.paths = side, latency, count, []
        for i in range(files):
            self.paths.append(os.path.join(folder, f"{i}.raw"))
            with open(self.paths[-1], "wb") as f:
                f.write(os.urandom(3 * side * side))

    def __len__(self):
        return self.count

    def read(self, path):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            time.sleep(self.latency)
            return bytearray(os.read(fd, 3 * self.side * self.side))
        finally:
            os.close(fd)

    def __getitem__(self, i):
        data = self.read(self.paths[i % len(self.paths)])
        return torch.frombuffer(data, dtype=torch.uint8).view(3, self.side, self.side), i % 1000


class Preloaded(ImageFolder):
    def __init__(self, folder):
        super().__init__(folder, latency=0)
        self.data = {p: ImageFolder.read(self, p) for p in self.paths}

    def read(self, path):
        return self.data[path]


@case(right=["loader-starved"], live=["slow-storage"],
      silent=["host-sync", "launch-bound", "batch-too-small", "main-thread-preprocess"], warm_up=(8, 40))
def slow_read(fixed):
    """Four workers read files with 10 ms of latency each; fix: the files are in memory."""
    folder = tempfile.mkdtemp(prefix="zoo")
    try:
        data = Preloaded(folder) if fixed else ImageFolder(folder)
        yield from train_on(forever(loader(data, 32, 4)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Annotated:
    """A small data set with a large index in JSON, which each worker parses when it first needs it."""

    def __init__(self, count, side=112):
        self.text = json.dumps([{"id": i, "label": i % 1000, "box": [i, i + 1, i + 2, i + 3]} for i in range(120_000)])
        self.count, self.side, self.index = count, side, None

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if self.index is None:
            self.index = {a["id"]: a for a in json.loads(self.text)}
        return torch.full((3, self.side, self.side), i % 256, dtype=torch.uint8), self.index[i]["label"]


@case(right=["worker-respawn", "loader-starved"], silent=["host-sync", "batch-too-small"], period=12, active=36,
      warm_up=24, min_steps=36)
def worker_respawn(fixed):
    """Epochs of 12 steps, and 8 workers that are started anew for each; fix: persistent_workers=True."""
    yield from train_on(forever(loader(Annotated(32 * 12), 32, 8, persistent_workers=fixed)))


class MixedOnCPU:
    """Images that are mixed by matrix products on the CPU."""

    def __init__(self, count=200_000, side=112):
        self.count, self.side, self.mix = count, side, None

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if self.mix is None:
            self.mix = torch.rand(384, 384) / 192
        x = torch.rand(384, 384)
        for _ in range(3):
            x = x @ self.mix
        x = x[:self.side, :self.side].mul(255).clamp(0, 255).to(torch.uint8)
        return x.expand(3, -1, -1).contiguous(), i % 1000


def all_threads(worker):
    torch.set_num_threads(os.cpu_count() or 1)


@case(right=["loader-starved"], live=["cpu-oversubscribed", "workers-cpu-bound"],
      silent=["host-sync", "launch-bound", "batch-too-small", "main-thread-preprocess"], warm_up=(12, 40))
def cpu_oversubscribed(fixed):
    """12 workers with as many threads each as there are cores; fix: one thread each (what DataLoader sets)."""
    more = {} if fixed else {"worker_init_fn": all_threads}
    yield from train_on(forever(loader(MixedOnCPU(), 16, 12, timeout=60, **more)))


# --- the main thread --------------------------------------------------------------------------------------------------

WORD = re.compile(r"\w+|[^\w\s]")
CORPUS = [" ".join(f"w{(i * 7919 + j * j) % 50021} and{j % 97}," for j in range(700)) for i in range(64)]


def tokenise(texts, length):
    """Words, then pieces of three letters, then numbers: a tokeniser in plain Python."""
    rows = []
    for text in texts:
        row = []
        for word in WORD.findall(text.lower()):
            for k in range(0, len(word), 3):
                row.append(hash(word[k:k + 3]) % 8192)
        rows.append((row + [0] * length)[:length])
    return rows


class Texts:
    """Batches of texts; tokenised by whoever asks for them."""

    def __init__(self, batch, length, count=200_000):
        self.batch, self.length, self.count = batch, length, count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.tensor(tokenise([CORPUS[(i + k) % len(CORPUS)] for k in range(self.batch)], self.length))


@case(right=["main-thread-preprocess"], silent=["host-sync", "loader-starved", "batch-too-small"], warm_up=(5, 40))
def main_preproc(fixed):
    """The training loop tokenises each batch itself, in Python; fix: 8 loader workers do it ahead."""
    length = dim(256) + 1
    model, opt, _ = text_job(24, 256, layers=6)
    texts = Texts(24, length)
    if fixed:
        ahead = torch.utils.data.DataLoader(texts, batch_size=None, num_workers=8, pin_memory=True, prefetch_factor=4)
        for ids in forever(ahead):
            text_step(model, opt, ids.to("cuda", non_blocking=True))
            yield 24
    for i in itertools.count():
        ids = torch.tensor(tokenise([CORPUS[(i + k) % len(CORPUS)] for k in range(24)], length))
        text_step(model, opt, ids.pin_memory().to("cuda", non_blocking=True))
        yield 24


def augment(x, mean, std):
    """Normalise, flip, shift brightness, add noise: the usual, as tensor operations."""
    x = x.float().div(255)
    x = (x - mean) / std
    x = x.flip(-1)
    x = x * (1 + 0.2 * torch.rand(len(x), 1, 1, 1, device=x.device))
    return x + 0.05 * torch.rand_like(x)


@case(right=["main-thread-preprocess"], silent=["host-sync", "loader-starved", "batch-too-small"])
def main_preproc_torch(fixed):
    """The training loop augments images with torch on the CPU; fix: the same operations on the GPU."""
    side = dim(224)
    pool = [torch.randint(256, (64, 3, side, side), dtype=torch.uint8).pin_memory() for _ in range(4)]
    model, opt = image_job()
    where = "cuda" if fixed else "cpu"
    mean = torch.tensor([0.485, 0.456, 0.406], device=where).view(1, 3, 1, 1)
    std = torch.tensor([0.229, 0.224, 0.225], device=where).view(1, 3, 1, 1)
    y = torch.randint(1000, (64,), device="cuda")
    for i in itertools.count():
        x = pool[i % len(pool)]
        if fixed:
            x = augment(x.to("cuda", non_blocking=True), mean, std)
        else:
            x = augment(x, mean, std).pin_memory().to("cuda", non_blocking=True)
        image_step(model, opt, x.to(memory_format=torch.channels_last), y)
        yield 64


class Swarm:
    """An environment in plain Python: particles that attract each other, about 2 ms a step."""

    def __init__(self, bodies=40):
        self.pos = [[i * 0.37 % 1, i * 0.61 % 1] for i in range(bodies)]
        self.vel = [[0.0, 0.0] for _ in range(bodies)]

    def observe(self):
        return [c for p in self.pos for c in p]

    def step(self, action):
        push = (action - 2) * 0.01
        for i, (px, py) in enumerate(self.pos):
            ax, ay = push, -push
            for j, (qx, qy) in enumerate(self.pos):
                if i != j:
                    dx, dy = qx - px, qy - py
                    inv = 1e-4 / (dx * dx + dy * dy + 0.01) ** 1.5
                    ax += dx * inv
                    ay += dy * inv
            self.vel[i][0] += ax
            self.vel[i][1] += ay
        for p, v in zip(self.pos, self.vel):
            p[0] = (p[0] + 0.01 * v[0]) % 1
            p[1] = (p[1] + 0.01 * v[1]) % 1
        return self.observe()


def simulate(pipe):
    env = Swarm()
    pipe.send(env.observe())
    while True:
        action = pipe.recv()
        if action is None:
            return
        pipe.send(env.step(action))


@case(right=["simulator-bound"], silent=["loader-starved", "batch-too-small"], active=40, warm_up=20, min_steps=100,
      fix_right=["simulator-bound", "none"])
def rl_sim(fixed):
    """An agent steps one Python environment and asks a tiny policy each time; fix: 16 environments in processes."""
    from multiprocessing import get_context
    policy = torch.nn.Sequential(torch.nn.Linear(80, 128), torch.nn.Tanh(), torch.nn.Linear(128, 128), torch.nn.Tanh(),
                                 torch.nn.Linear(128, 5)).cuda()

    def act(observations):
        with torch.no_grad():
            return policy(torch.tensor(observations, device="cuda")).argmax(-1).cpu().tolist()

    if not fixed:
        env = Swarm()
        seen = env.observe()
        while True:
            seen = env.step(act([seen])[0])
            yield 1
    fork, pipes, procs = get_context("fork"), [], []
    try:
        for _ in range(16):
            mine, theirs = fork.Pipe()
            procs.append(fork.Process(target=simulate, args=(theirs,), daemon=True))
            procs[-1].start()
            pipes.append(mine)
        seen = [p.recv() for p in pipes]
        while True:
            for p, a in zip(pipes, act(seen)):
                p.send(a)
            seen = [p.recv() for p in pipes]
            yield len(pipes)
    finally:
        for p in pipes:
            p.send(None)
        for p in procs:
            p.join(5)
