"""Imports the modules that are its words, one after the other, and prints of each, as JSON, what it has read and what
it has left in the process.

It runs in the environment that has the modules, with recorded_getenv.c loaded before the C library.
"""

import asyncio
import ctypes
import decimal
import faulthandler
import gc
import importlib
import json
import locale
import logging
import multiprocessing
import os
import random
import resource
import signal
import socket
import sys
import threading
import traceback
import warnings

from worldsize.wings.warm_start.inrank import checks

STANDARD = (
    "abc", "argparse", "ast", "asyncio", "atexit", "base64", "bisect", "builtins", "codecs", "collections",
    "collections.abc", "concurrent.futures.thread", "contextlib", "copy", "copyreg", "csv", "ctypes", "dataclasses",
    "datetime", "decimal", "enum", "fcntl", "functools", "gc", "getpass", "glob", "gzip", "hashlib", "heapq",
    "http.client", "importlib", "importlib.metadata", "importlib.util", "inspect", "io", "itertools", "json",
    "linecache", "locale", "logging", "logging.config", "math", "mmap", "multiprocessing", "multiprocessing.pool",
    "multiprocessing.reduction", "operator", "os", "os.path", "pathlib", "pickle", "pickletools", "platform", "pprint",
    "queue", "random", "re", "resource", "select", "selectors", "shlex", "shutil", "signal", "site", "socket", "ssl",
    "stat", "statistics", "string", "struct", "subprocess", "sys", "sysconfig", "tarfile", "tempfile", "textwrap",
    "threading", "time", "timeit", "tokenize", "traceback", "types", "typing", "unittest", "unittest.mock",
    "urllib.parse", "urllib.request", "uuid", "warnings", "weakref", "xml.etree.ElementTree", "zipfile", "zlib",
)  # fmt: skip
"""What scripts import between the modules. They are imported first: what the modules change in them is then seen."""


ORDINARY = type(os.environ)


class RecordingEnviron(ORDINARY):
    """What os.environ becomes: it keeps which names are looked up, and the files that go through all of them."""

    names, walkers = set(), set()

    def __getitem__(self, name):
        self.names.add(os.fsdecode(name))
        return super().__getitem__(name)

    def __contains__(self, name):
        self.names.add(os.fsdecode(name))  # os.get_exec_path asks for bytes, too
        return super().__contains__(name)

    def __iter__(self):
        frames = [each.filename for each in traceback.extract_stack()]
        self.walkers.add(next(each for each in reversed(frames) if each != __file__ and not each.startswith("<")))
        return super().__iter__()


random_seeds = []


def recording(seed):
    """In the place of random.seed: who calls it as it is imported gives all ranks the same numbers."""

    def record(*words):
        random_seeds.append(words)
        seed(*words)

    return record


def standard_library():
    """The public contents of its modules."""
    return {
        "%s.%s" % (name, key): value
        for name in STANDARD
        for key, value in vars(sys.modules[name]).items()
        if not key.startswith("_") and not isinstance(value, type(sys))
    }


def state():
    """What the process has one of, and what standard modules or the script could find otherwise."""
    found = {
        "argv": sys.argv[:],
        "collector": [gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()],
        "CPUs": [sorted(os.sched_getaffinity(0)), os.nice(0)],
        "decimal": str(decimal.getcontext()),
        "event loops": [asyncio.get_event_loop_policy()] if sys.version_info < (3, 14) else [],
        "faulthandler": faulthandler.is_enabled(),
        "hooks of the path": sys.path_hooks[:],
        "hooks": [sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook],
        "observers": [sys.gettrace(), sys.getprofile()],
        "limits": [resource.getrlimit(number) for number in range(16)],
        "limits of Python": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": [logging.root.handlers[:], logging.root.level, logging.getLoggerClass()],
        "path": sys.path[:],
        "seeds": random_seeds[:],
        "signals": [[signal.getsignal(each) for each in range(1, signal.NSIG)], signal.pthread_sigmask(0, [])],
        "start method": multiprocessing.get_start_method(allow_none=True),
        "streams": [sys.stdin, sys.stdout, sys.stderr],
        "time limit of sockets": socket.getdefaulttimeout(),
        "umask": os.umask(os.umask(0)),
        "working directory": os.getcwd(),
    }
    if "numpy.random" in sys.modules:
        found["numbers of numpy"] = str(sys.modules["numpy.random"].get_state())
    if "torch.random" in sys.modules:
        found["seed of torch"] = sys.modules["torch.random"].initial_seed()
    return found


def broad_filters():
    """Filters of warnings that name neither a text nor a module nor a category of their own package."""
    return {str(each) for each in warnings.filters if not (each[1] or each[3]) and each[2].__module__ == "builtins"}


def names_of_c():
    """What was looked up by getenv until now."""
    recorded = ctypes.CDLL(None).recorded_names
    recorded.restype = ctypes.c_char_p
    return set(recorded().decode("utf-8", "replace").split())


def doubt(files):
    try:
        checks.check_state(files)
    except checks.Doubt as error:
        return str(error)
    return ""


def is_replaced(new, old):
    return new is not old and not (type(new) is type(old) and new == old)


def facts(name, files):
    """What the import of the module has done."""
    RecordingEnviron.names.clear()
    RecordingEnviron.walkers.clear()
    variables, contents, before, filters = dict(os.environ._data), standard_library(), state(), broad_filters()
    finders, known, earlier = sys.meta_path[:], names_of_c(), doubt(files)
    os.environ.__class__ = RecordingEnviron
    importlib.import_module(name)
    os.environ.__class__ = ORDINARY
    after, now, written, found = state(), doubt(files), dict(os.environ._data), standard_library()
    return {
        "read": sorted(RecordingEnviron.names | names_of_c() - known),
        "walked by": sorted(RecordingEnviron.walkers),
        "written": sorted(os.fsdecode(name) for name, _ in variables.items() ^ written.items()),
        "replaced": sorted(each for each in found if each not in contents or is_replaced(found[each], contents[each])),
        "changed": sorted(each for each in before if after[each] != before[each]),
        "finders": sorted(type(each).__module__ for each in sys.meta_path if each not in finders),
        "finders lost": [str(each) for each in finders if each not in sys.meta_path],
        "filters": sorted(broad_filters() ^ filters),
        "doubt": now if now != earlier else "",
    }


def main():
    for name in STANDARD:
        module = importlib.import_module(name)
        for each in getattr(module, "__all__", ()):
            getattr(module, each)  # typing of Python 3.13 makes some of its names when they are asked for
    random.seed = recording(random.seed)
    files = checks.open_files()
    print(json.dumps({name: facts(name, files) for name in sys.argv[1:]}), file=sys.__stdout__)


if __name__ == "__main__":
    main()
