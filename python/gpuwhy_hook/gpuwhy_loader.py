"""What `gpuwhy sweep` does to torch's data loaders when it is asked to; sitecustomize.py loads it then, and never otherwise.

    GPUWHY_LOADER_MARKS=1              notes when each batch is taken from a loader: marks-PID in the record, 8 bytes a batch
    GPUWHY_LOADER_WORKERS=8            (also _PREFETCH, _PIN, _PERSISTENT) loaders are made with this setting
    GPUWHY_LOADER_ALONE=loader         the first loader that is iterated is emptied over and over; the script gets no batch
    GPUWHY_LOADER_ALONE=model          each loader gives its first batch over and over, and its workers end

A loader that refuses a setting is made as the script wrote it, and a line in hook-PID.jsonl says so. Whatever fails here is
swallowed; what the loader or the data set raises goes to the job, as it would without us.
"""
import functools
import inspect
import os
import struct
import sys
import time

SETTINGS = {"GPUWHY_LOADER_WORKERS": "num_workers", "GPUWHY_LOADER_PREFETCH": "prefetch_factor",
            "GPUWHY_LOADER_PIN": "pin_memory", "GPUWHY_LOADER_PERSISTENT": "persistent_workers"}
# Arguments that torch refuses without worker processes.
NEED_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout")


def wanted_settings(environ):
    out = {}
    for name, key in SETTINGS.items():
        text = environ.get(name, "")
        if text.isdigit():
            out[key] = bool(int(text)) if key in ("pin_memory", "persistent_workers") else int(text)
    return out


def patch(module, write, quietly):
    """`module`: torch.utils.data.dataloader, just imported. `write(dict)` adds a line to hook-PID.jsonl."""
    folder = os.environ["GPUWHY_HOOK"]
    state = {"pid": None, "fd": -1}

    # --- marks -----------------------------------------------------------------------------------------------------------

    def mark_now():
        if state["pid"] != os.getpid():  # the first one, or a forked child with our descriptor
            path = os.path.join(folder, "marks-%d" % os.getpid())
            state["fd"] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            state["pid"] = os.getpid()
        os.write(state["fd"], struct.pack("=q", int(time.monotonic() * 1e9)))

    mark = quietly(mark_now) if os.environ.get("GPUWHY_LOADER_MARKS") else (lambda: None)
    alone = os.environ.get("GPUWHY_LOADER_ALONE", "")

    def patch_iterator():
        cls = module._BaseDataLoaderIter
        method = cls.__next__

        @functools.wraps(method)
        def __next__(self):
            batch = method(self)
            mark()
            return batch
        cls.__next__ = __next__

    # --- settings --------------------------------------------------------------------------------------------------------

    wanted = wanted_settings(os.environ)

    def changed_arguments(signature, args, kwargs):
        bound = signature.bind(*args, **kwargs)
        known = {k: v for k, v in wanted.items() if k in signature.parameters}
        bound.arguments.update(known)
        if not bound.arguments.get("num_workers", 0):
            for key in NEED_WORKERS:
                bound.arguments.pop(key, None)
        return bound

    def patch_settings():
        cls = module.DataLoader
        init = cls.__init__
        signature = inspect.signature(init)
        change, note = quietly(changed_arguments), quietly(write)

        @functools.wraps(init)
        def __init__(self, *args, **kwargs):
            bound = change(signature, (self,) + args, kwargs)
            if bound is not None:
                try:
                    init(*bound.args, **bound.kwargs)
                    note({"what": "sweep", "applied": True})
                    return
                except Exception as e:  # pylint: disable=broad-except
                    note({"what": "sweep", "applied": False, "error": str(e)[:200]})
            init(self, *args, **kwargs)
        cls.__init__ = __init__

    # --- alone -----------------------------------------------------------------------------------------------------------

    def note_alone(loader):
        write({"what": "sweep", "alone": alone, "dataset": type(loader.dataset).__name__,
               "batch_size": loader.batch_size if isinstance(loader.batch_size, int) else None})

    def patch_loader_alone():
        cls = module.DataLoader
        method, note = cls.__iter__, quietly(note_alone)

        @functools.wraps(method)
        def __iter__(self):
            note(self)
            while True:
                taken = 0
                for _ in method(self):
                    taken += 1
                if not taken:  # nothing in it: the script shall see that
                    return method(self)
        cls.__iter__ = __iter__

    def end_workers(loader, iterator):
        if hasattr(iterator, "_shutdown_workers"):
            iterator._shutdown_workers()
        if getattr(loader, "_iterator", None) is iterator:
            loader._iterator = None

    def patch_model_alone():
        cls = module.DataLoader
        method, note, end = cls.__iter__, quietly(note_alone), quietly(end_workers)
        first = {}  # id of a loader -> (the loader, its first batch)

        def again(loader, batch):
            try:
                left = len(loader)
            except TypeError:
                left = sys.maxsize
            for _ in range(left):
                mark()
                yield batch

        @functools.wraps(method)
        def __iter__(self):
            if id(self) not in first:
                iterator = method(self)
                try:
                    batch = next(iterator)
                except StopIteration:
                    return iter(())
                end(self, iterator)
                del iterator
                first[id(self)] = (self, batch)
                note(self)
            return again(*first[id(self)])
        cls.__iter__ = __iter__

    if alone != "model":
        quietly(patch_iterator)()
    if wanted:
        quietly(patch_settings)()
    if alone == "loader":
        quietly(patch_loader_alone)()
    elif alone == "model":
        quietly(patch_model_alone)()
