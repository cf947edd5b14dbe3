"""Settings hook of `gpuwhy run`: notes how the job uses torch's data loaders. Optional (--no-hook), no dependencies.

`gpuwhy run` puts this folder in front of PYTHONPATH and the folder of the record into GPUWHY_HOOK. Python imports this file at
its start, as it does with any sitecustomize; a sitecustomize of the job's own is loaded first, as if this one were not there.
Nothing of torch is imported here: when the job imports it, a few methods are wrapped that run once an epoch or less, and torch is
asked to tell of each step of an optimizer:

    DataLoader.__iter__     the loader's settings, and torch's precision settings, when an epoch begins
    SAMPLER.set_epoch       counted
    autograd.profiler       the recorder pauses while torch.profiler holds the GPU's activity records
    optimizer.step()        its time; torch's settings at the 3rd, 10th, 100th ... step

Only when `gpuwhy sweep` asks for it (GPUWHY_LOADER_...), gpuwhy_loader.py beside this file does more.

What is noted goes to hook-PID.jsonl in the record: one flat JSON object a line, "what" says which. No data, no values of the
job's variables, of its environment CUDA_LAUNCH_BLOCKING alone. Whatever fails here is swallowed: the job must never notice.
"""
import os
import sys


def _chain(here):
    """Loads the sitecustomize that would have been loaded without us, and leaves no trace of ours on sys.path."""
    same = os.path.normcase(os.path.abspath(here))
    sys.path[:] = [p for p in sys.path if not p or os.path.normcase(os.path.abspath(p)) != same]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401  (the job's own, if there is one)
    except ImportError as e:
        if getattr(e, "name", "sitecustomize") != "sitecustomize":
            raise  # its own import failed: Python reports that as it always does
        if ours is not None:
            sys.modules["sitecustomize"] = ours


def _start():
    folder = os.environ.get("GPUWHY_HOOK")
    if not folder or sys.version_info < (3, 6) or sys.flags.ignore_environment:
        return
    import importlib.machinery
    import json
    import threading
    import time

    lock = threading.Lock()
    loaders = {}   # id -> [weak reference, number, epochs, time of the last line, sampler's key]
    epochs = {}    # id of a sampler -> [weak reference, calls of set_epoch]
    wrapped = set()
    state = {"loaders": 0, "lines": 0, "torch": None, "pauses": 0, "lib": None, "pid": os.getpid()}

    def quietly(fn):
        """Calls fn; whatever it raises stays here."""
        def call(*args):
            try:
                return fn(*args)
            except (Exception, SystemExit):  # pylint: disable=broad-except
                return None
        return call

    def unwarned(fn):
        """Calls fn; warnings that it causes are not shown. Not by warnings.catch_warnings(): Python forgets then what it has
        shown once, and shows the job's own warnings again."""
        def call(*args):
            import warnings
            ours, filters = ("ignore", None, Warning, None, 0), warnings.filters
            filters.insert(0, ours)
            try:
                return fn(*args)
            finally:
                if ours in filters:
                    filters.remove(ours)
        return call

    def write(line):
        if state["pid"] != os.getpid():  # a forked child counts for itself
            state["pid"] = os.getpid()
            state["lines"] = 0
        if state["lines"] >= 2000:
            return
        state["lines"] += 1
        text = (json.dumps(line) + "\n").encode("ascii")
        fd = os.open(os.path.join(folder, "hook-%d.jsonl" % os.getpid()), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, text)  # one write: whole, or not there
        finally:
            os.close(fd)

    # --- what is read ----------------------------------------------------------------------------------------------------

    def setting(fn):
        try:
            v = fn()
        except (Exception, SystemExit):  # pylint: disable=broad-except
            return None
        return v if isinstance(v, (bool, int, str)) else None

    @unwarned
    def torch_settings():
        torch = sys.modules.get("torch")
        if torch is None:
            return
        line = {
            "version": setting(lambda: str(torch.__version__)), "cuda": setting(lambda: torch.version.cuda),
            "cudnn_benchmark": setting(lambda: torch.backends.cudnn.benchmark), "cudnn_tf32": setting(lambda: torch.backends.cudnn.allow_tf32),
            "matmul_tf32": setting(lambda: torch.backends.cuda.matmul.allow_tf32),
            "matmul_precision": setting(lambda: torch.get_float32_matmul_precision()),  # pylint: disable=unnecessary-lambda
            "threads": setting(lambda: torch.get_num_threads()), "anomaly": setting(lambda: torch.is_anomaly_enabled()),  # pylint: disable=unnecessary-lambda
            "launch_blocking": os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0")}
        dist = sys.modules.get("torch.distributed")
        if dist is not None and setting(lambda: bool(dist.is_available() and dist.is_initialized())):
            line["rank"] = setting(lambda: dist.get_rank())  # pylint: disable=unnecessary-lambda
            line["world_size"] = setting(lambda: dist.get_world_size())  # pylint: disable=unnecessary-lambda
        line = {k: v for k, v in line.items() if v is not None}
        if line != state["torch"]:
            state["torch"] = line
            write(dict(line, what="torch"))

    def sampler_of(loader):
        """The object that orders the data. A batch sampler of the user's own hides whatever is behind it."""
        batches = getattr(loader, "batch_sampler", None)
        if batches is not None and type(batches).__name__ != "BatchSampler":
            return batches
        return getattr(batches, "sampler", None) or getattr(loader, "sampler", None)

    @unwarned
    def loader_settings(loader, number):
        sampler = sampler_of(loader)
        name = type(sampler).__name__ if sampler is not None else None
        line = {"what": "loader", "id": number}
        for key in ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "batch_size", "drop_last"):
            line[key] = setting(lambda key=key: getattr(loader, key))
        line["sampler"] = name
        line["dataset"] = setting(lambda: type(loader.dataset).__name__)
        line["iterable"] = setting(lambda: type(loader.dataset).__mro__ and any(c.__name__ == "IterableDataset" for c in type(loader.dataset).__mro__))
        if sampler is not None:
            known = name in ("RandomSampler", "SequentialSampler", "WeightedRandomSampler", "SubsetRandomSampler")
            split = hasattr(sampler, "num_replicas") or "istributed" in name
            if known or split:
                line["distributed"] = bool(split)
        if not line["iterable"]:
            line["length"] = setting(lambda: len(loader))
        return {k: v for k, v in line.items() if v is not None}

    # --- what is wrapped -------------------------------------------------------------------------------------------------

    def entry(table, obj, make):
        """The row of an object, as long as it lives. Numbers of dead objects come back: the reference tells."""
        import weakref
        row = table.get(id(obj))
        if row is None or row[0]() is not obj:
            row = table[id(obj)] = make(weakref.ref(obj))
            if len(table) > 10000:
                table.clear()
                table[id(obj)] = row
        return row

    def on_set_epoch(sampler):
        with lock:
            entry(epochs, sampler, lambda ref: [ref, 0])[1] += 1

    def watch(cls):
        """Counts set_epoch() of a sampler class."""
        method = cls.__dict__.get("set_epoch")
        if method is None or cls in wrapped or not callable(method):
            return
        wrapped.add(cls)
        import functools
        note = quietly(on_set_epoch)

        @functools.wraps(method)
        def set_epoch(self, *args, **kwargs):
            note(self)
            return method(self, *args, **kwargs)
        cls.set_epoch = set_epoch

    def on_iter(loader):
        with lock:
            row = entry(loaders, loader, lambda ref: [ref, None, 0, 0.0])
            row[2] += 1
            if row[1] is None:
                state["loaders"] += 1
                row[1] = state["loaders"]
                sampler = sampler_of(loader)
                for cls in type(sampler).__mro__:
                    watch(cls)
                write(loader_settings(loader, row[1]))
            now = time.monotonic()
            if row[2] <= 3 or now - row[3] > 5:  # loaders of one batch an epoch exist
                row[3] = now
                write(counts(loader, row))
        torch_settings()

    def counts(loader, row):
        sampler = sampler_of(loader)
        calls = epochs.get(id(sampler))
        return {"what": "loader", "id": row[1], "epochs": row[2], "set_epoch": calls[1] if calls and calls[0]() is sampler else 0}

    def patch_loader(module):
        import functools
        cls = module.DataLoader
        method = cls.__iter__
        note = quietly(on_iter)

        @functools.wraps(method)
        def __iter__(self):
            note(self)
            return method(self)
        cls.__iter__ = __iter__
        if any(name.startswith("GPUWHY_LOADER_") for name in os.environ):
            quietly(patch_for_sweep)(module)

    def patch_for_sweep(module):
        """Settings and marks that `gpuwhy sweep` asked for."""
        import importlib.util
        spec = importlib.util.spec_from_file_location("gpuwhy_loader", os.path.join(_here, "gpuwhy_loader.py"))
        extra = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(extra)
        extra.patch(module, write, quietly)

    def patch_distributed(module):
        watch(module.DistributedSampler)

    # --- torch.profiler needs the records that we take -----------------------------------------------------------------------

    def pause(on):
        path = os.environ.get("CUDA_INJECTION64_PATH", "")
        if os.path.basename(path) != "libgpuwhy_inject.so":
            return
        if state["lib"] is None:
            import ctypes
            state["lib"] = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)  # only if the driver loaded it
        state["lib"].gpuwhy_inject_pause(on)

    def pause_once():
        with lock:
            state["pauses"] += 1
            first = state["pauses"] == 1
        if first:
            pause(1)
            write({"what": "profiler", "on": True})

    def resume():
        with lock:
            last = state["pauses"] == 1
            state["pauses"] = max(0, state["pauses"] - 1)
        if last:
            pause(0)
            write({"what": "profiler", "on": False})

    def patch_profiler(module):
        import functools
        cls = module.profile
        before, after = cls._prepare_trace, cls.__exit__
        begin, end = quietly(pause_once), quietly(resume)

        @functools.wraps(before)
        def _prepare_trace(self, *args, **kwargs):
            if not getattr(self, "_gpuwhy_paused", False):
                self._gpuwhy_paused = True
                begin()
            return before(self, *args, **kwargs)

        @functools.wraps(after)
        def __exit__(self, *args, **kwargs):
            try:
                return after(self, *args, **kwargs)
            finally:
                if getattr(self, "_gpuwhy_paused", False):
                    self._gpuwhy_paused = False
                    end()
        cls._prepare_trace, cls.__exit__ = _prepare_trace, __exit__

    patches = {"torch.utils.data.dataloader": quietly(patch_loader), "torch.utils.data.distributed": quietly(patch_distributed),
               "torch.autograd.profiler": quietly(patch_profiler)}

    # --- after the import ------------------------------------------------------------------------------------------------------

    class Loader:
        """Runs a module as its own loader does, then the patch. Steps aside afterwards."""

        def __init__(self, real, patch):
            self.real, self.patch = real, patch

        def __getattr__(self, name):
            return getattr(self.real, name)

        def create_module(self, spec):
            return self.real.create_module(spec)

        def exec_module(self, module):
            try:
                module.__loader__ = self.real
                module.__spec__.loader = self.real
            except Exception:  # pylint: disable=broad-except
                pass
            self.real.exec_module(module)
            self.patch(module)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            patch = patches.pop(name, None)
            if patch is None:
                return None
            try:
                spec = importlib.machinery.PathFinder.find_spec(name, path, target)
                if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader, patch)
            except Exception:  # pylint: disable=broad-except
                spec = None
            if not patches and Finder in sys.meta_path:
                sys.meta_path.remove(Finder)
            return spec

    # --- steps: torch's public hook for all optimizers ------------------------------------------------------------------------

    dense_calls, dense_ns = 65536, 300 * 10**9  # so long each step has its time; later some have
    most_held, flush_ns = 256, 10**9
    most_optimizers, most_lines, sparse_ns, sparse_flush_ns = 16, 1200, 10**9, 60 * 10**9
    never = 1 << 63
    now = time.time_ns if hasattr(time, "time_ns") else None
    steps = {}

    def forget_steps():
        """At the start, and in a forked child."""
        steps.clear()
        steps.update(held=[], due=never, full=3, settings=3, calls=0, first=0, told=0, lines=0, numbers={}, kept={}, sparse=[], lock=threading.Lock())

    def number_of(key):
        """Small number of an optimizer, in order of their first steps; -1 for those past the most."""
        numbers = steps["numbers"]
        if key not in numbers:
            if len(numbers) >= most_optimizers:
                return -1
            numbers[key] = len(numbers)
        return numbers[key]

    def write_steps(rows):
        """Rows: (time, number of the optimizer, its steps since its row before)."""
        steps["told"] += sum(r[2] for r in rows)
        if not rows or steps["lines"] >= most_lines:
            return
        steps["lines"] += 1
        us = [r[0] // 1000 for r in rows]
        line = {"what": "steps", "n": steps["told"], "at": us[0] * 1000, "us": [b - a for a, b in zip(us, us[1:])]}
        if any(r[1] for r in rows):
            line["of"] = [r[1] for r in rows]
        if any(r[2] != 1 for r in rows):
            line["steps"] = [r[2] for r in rows]
        write(line)

    def thin_out(rows):
        """Late in the job: one time a second with what was counted since, and both ends of each step that is long."""
        apart = sparse_ns * max(1, len(steps["numbers"]))
        for t, number, _ in rows:
            kept, count, last, usual = steps["kept"].get(number, (0, 0, 0, 0))
            took = t - last if last else 0
            if usual and took > 3 * usual:
                if count:
                    steps["sparse"].append((last, number, count))
                kept, count = 0, 0
            count += 1
            if not 0 <= t - kept < apart:
                steps["sparse"].append((t, number, count))
                kept, count = t, 0
            usual += (min(took, 4 * usual) - usual) / 64 if usual else took
            steps["kept"][number] = (kept, count, t, usual)

    def flush_steps(t):
        rows, steps["held"] = steps["held"], []
        steps["first"] = steps["first"] or t
        steps["calls"] += len(rows)
        calls, settings, due = steps["calls"], steps["settings"], t >= steps["due"]
        dense = calls <= dense_calls and t - steps["first"] <= dense_ns
        if calls >= settings:
            steps["settings"] = 10 ** len(str(calls))  # 10, 100, ...
        steps["full"] = max(1, min(most_held, steps["settings"] - calls))
        if dense or due or steps["due"] == never:
            steps["due"] = t + (flush_ns if dense else sparse_flush_ns)
        numbers = {key: number_of(key) for _, key in rows}
        rows = [(at, numbers[key], 1) for at, key in rows if numbers[key] >= 0]
        if dense:
            write_steps(rows)
        else:
            thin_out(rows)
            if due or len(steps["sparse"]) >= most_held:
                rows, steps["sparse"] = steps["sparse"], []
                write_steps(rows)
        if calls >= settings:
            torch_settings()

    def try_flush(t):
        lock = steps["lock"]
        if lock.acquire(False):  # another thread of the job does it
            try:
                flush_steps(t)
            finally:
                lock.release()

    def patch_steps(_module):
        """Both modules have to be there: the one that has the hook, and the one that tells when a step is compiled."""
        optim, compiler = sys.modules.get("torch.optim.optimizer"), sys.modules.get("torch.compiler")
        register = getattr(optim, "register_optimizer_step_post_hook", None)
        compiling = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", None)
        if register is None or compiling is None or now is None or not hasattr(os, "register_at_fork") or steps:
            return
        forget_steps()
        flush = quietly(try_flush)

        def gpuwhy_step(optimizer, _args, _kwargs):
            if compiling():  # a constant for Dynamo, which then sees nothing of the rest
                return
            try:
                t, held = now(), steps["held"]
                held.append((t, id(optimizer)))
                if len(held) >= steps["full"] or t >= steps["due"]:
                    flush(t)
            except Exception:  # pylint: disable=broad-except
                pass

        os.register_at_fork(after_in_child=forget_steps)
        register(gpuwhy_step)

    patches.update({"torch.optim.optimizer": quietly(patch_steps), "torch.compiler": quietly(patch_steps)})

    def at_exit():
        torch = sys.modules.get("torch")
        if torch is not None and setting(lambda: torch.cuda.is_initialized()):  # pylint: disable=unnecessary-lambda
            torch_settings()
        if steps and steps["lock"].acquire(False):
            flush_steps(now())
            write_steps(steps["sparse"])
        if state["pid"] != os.getpid():
            return
        with lock:
            for row in list(loaders.values()):
                loader = row[0]()
                if loader is not None and row[1] is not None:
                    write(counts(loader, row))

    import atexit
    atexit.register(quietly(at_exit))
    sys.meta_path.insert(0, Finder)


_here = os.path.dirname(os.path.abspath(__file__))
try:
    _start()
except Exception:  # pylint: disable=broad-except
    pass
_chain(_here)
