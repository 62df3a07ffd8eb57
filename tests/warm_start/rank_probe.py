"""A script that writes all that it finds of itself, as JSON, to the folder of its first word, by its rank.

It runs on Python 3.8 to 3.14, with torch and numpy or without. What comes after the first word is of no account.
"""

import atexit
import ctypes
import faulthandler
import gc
import json
import locale
import multiprocessing
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import warnings

torch = numpy = None
if __name__ == "__main__":  # and not in the processes that multiprocessing starts
    try:
        import numpy
        import torch
        import torch._dynamo
    except ImportError:
        pass  # this Python has none

RANK = os.environ["RANK"]
OWN = ("_", "SHLVL")


def read(path):
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")


def status_fields(*names):
    lines = [line.split(":", 1) for line in read("/proc/self/status").splitlines()]
    return {name: value.strip() for name, value in lines if name in names}


def open_files():
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink("/proc/self/fd/" + number).replace(str(os.getpid()), "PID")
        except OSError:
            pass  # the folder itself
    return found


def stream(file):
    return [file.encoding, file.errors, file.line_buffering, getattr(file, "write_through", None), file.isatty(),
            file.fileno(), stat.S_ISREG(os.fstat(file.fileno()).st_mode)]  # fmt: skip


def c_variable(name):
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    value = getenv(name.encode())
    return None if value is None else value.decode("utf-8", "surrogateescape")


def variables_of_child():
    """The variables of a program that this one starts."""
    words = subprocess.check_output(["env", "-0"]).decode("utf-8", "replace").split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def child(queue):
    queue.put([os.environ["RANK"], sys.argv, os.getppid()])


def spawned(method):
    """What a child finds that is started in this way."""
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    rank, argv, parent = queue.get()
    process.join()
    return [rank, argv, parent == os.getpid() or method == "forkserver", process.exitcode]


def threads():
    """How many threads libraries use, and that they give what one thread would."""
    found = {}
    if numpy is not None:
        square = numpy.ones((300, 300)).dot(numpy.ones((300, 300)))
        found["numpy"] = float(square.sum())
    if torch is not None:
        found["torch"] = [torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info()]
    try:
        import threadpoolctl
    except ImportError:
        return found
    found["pools"] = sorted([each["internal_api"], each["num_threads"]] for each in threadpoolctl.threadpool_info())
    return found


def seeds():
    """What is drawn anew in each process, and what is the same in all once it is seeded."""
    fresh = {"random": random.getrandbits(64), "authkey": multiprocessing.current_process().authkey.hex()}
    random.seed(1)
    fixed = {"random": random.random()}
    if numpy is not None:
        fresh["numpy"] = numpy.random.randint(0, 2**62)
        fresh["numpy generator"] = int(numpy.random.default_rng().integers(2**62))
        numpy.random.seed(1)
        fixed["numpy"] = numpy.random.rand()
    if torch is not None:
        fresh["torch"] = torch.initial_seed()
        torch.manual_seed(1)
        fixed["torch"] = torch.rand(1).item()
    return fresh, fixed


def loaded_batches():
    """What workers of a DataLoader give; None without torch."""
    if torch is None:
        return None
    from torch.utils.data import DataLoader

    return [batch.tolist() for batch in DataLoader(list(range(4)), batch_size=2, num_workers=1)]


def main():
    fresh, fixed = seeds()
    values = {
        "sys.argv": sys.argv,
        "sys.path": sys.path,
        "sys.flags": repr(sys.flags),
        "sys.executable": [sys.executable, sys.prefix, sys.base_prefix],
        "sys.orig_argv": getattr(sys, "orig_argv", None),
        "sys.warnoptions": [sys.warnoptions, repr(sys._xoptions)],
        "garbage collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)],
        "sys.hooks": [
            sys.gettrace() is None,
            sys.getprofile() is None,
            [type(each).__name__ for each in sys.path_hooks],
        ],
        "__main__": [
            __name__,
            __file__,
            __spec__ and [__spec__.name, __spec__.origin, __spec__.cached, __spec__.parent],
            type(__loader__).__name__,
            __package__,
            __doc__,
        ],
        "os.environ": {name: value for name, value in os.environ.items() if name not in OWN},
        "getenv": {name: c_variable(name) for name in os.environ if name not in OWN},
        "/proc/PID/environ": dict(line.split("=", 1) for line in read("/proc/self/environ").split("\0") if line),
        "subprocess": variables_of_child(),
        "working directory": [os.getcwd(), os.environ.get("PWD")],
        "umask": os.umask(os.umask(0)),
        "stdin": open_files().get("0"),
        "descriptors": open_files(),
        "streams": [stream(sys.stdout), stream(sys.stderr)],
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "signals of the kernel": status_fields("SigBlk", "SigIgn", "SigCgt"),
        "process group": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
        "/proc/PID/cmdline": read("/proc/self/cmdline").split("\0"),
        "/proc/PID/comm": read("/proc/self/comm"),
        "parent": read("/proc/%d/cmdline" % os.getppid()).split("\0")[1:3],
        "threads of the process": [threading.active_count(), len(os.listdir("/proc/self/task"))],
        "limits": [resource.getrlimit(number) for number in range(16)],
        "core dumps": [read("/proc/self/coredump_filter"), read("/proc/self/oom_score_adj"), os.nice(0)],
        "CPUs": sorted(os.sched_getaffinity(0)),
        "NUMA": status_fields("Mems_allowed_list", "Cpus_allowed_list"),
        "credentials": status_fields("Uid", "Gid", "Groups", "CapEff", "NoNewPrivs", "Seccomp"),
        "cgroup": read("/proc/self/cgroup"),
        "faulthandler": faulthandler.is_enabled(),
        "encodings": [
            sys.getfilesystemencoding(),
            locale.getpreferredencoding(False),
            locale.setlocale(locale.LC_CTYPE),
        ],
        "warnings": [repr(each) for each in warnings.filters if each[2] in (DeprecationWarning, ResourceWarning)],
        "multiprocessing": [spawned(method) for method in ("fork", "spawn", "forkserver")],
        "loader workers": loaded_batches(),
        "thread counts": threads(),
        "seeded numbers": fixed,
    }
    with open(os.path.join(sys.argv[1], "rank-%s.json" % RANK), "w") as file:
        json.dump({"values": values, "fresh": fresh, "order": [hash("a"), hash("b")]}, file)


class Finalized:
    def __del__(self):
        print("finalized", flush=True)


if __name__ == "__main__":
    main()
    kept = Finalized()
    atexit.register(print, "at exit", flush=True)
    threading.Thread(target=print, args=("thread",)).start()
