"""Checks whether ranks may be forked from this process: it must contain nothing that forks would share or lose, or that
the script would have found otherwise."""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import AbstractSet, Any, Dict, Iterable, Iterator, Set

_OBSERVERS = ("coverage", "debugpy", "pydevd")
_MODULE_ENDINGS = (".py", ".pyc", ".so")
_HARMLESS_THREADS = ("jemalloc_bg_thd",)
"""The names of threads that forks do not need. jemalloc, which Arrow uses, returns memory with this one; in a fork
without it, memory is returned when it is freed (jemalloc's background_thread.c)."""

_PAUSES = (0.001, 0.004, 0.016, 0.064)
"""The pauses, in seconds, in which a thread may still end."""

_HARMLESS_FILES = ("/dev/null", "/dev/urandom")


class Doubt(Exception):
    """An error: the reason why ranks must not be forked from this process."""


class AskedNames:
    """An import finder that finds nothing, and records the top-level names that were looked up."""

    def __init__(self) -> None:
        self.names: Set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        self.names.add(name.partition(".")[0])


def check_start(order: "Dict[str, Any]") -> None:
    """Raise Doubt if this is not the Python process that the agent has started with the expected words, if Python has
    printed something as it started, or if a tool (debugger, profiler, coverage) would have been loaded before the
    modules of the script. `order` contains the agent's instructions."""
    if os.getppid() != order["agent"]:
        raise Doubt("the command's shell has started Python as a process of its own")
    if _command_line()[1:] != order["words"][1:]:
        raise Doubt("Python was started with other words than those of the command")
    if os.fstat(1).st_size != order["printed"]:
        raise Doubt("Python printed something as it started")
    if sys.gettrace() is not None or sys.getprofile() is not None:
        raise Doubt("a debugger or profiler was loaded before the script")
    for name in _OBSERVERS:
        if name in sys.modules:
            raise Doubt(f"{name} was loaded before the script")
    _check_customization()


def _command_line() -> "list[str]":
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def _check_customization() -> None:
    """Raise Doubt if a `sitecustomize` or `usercustomize` of the user would be loaded after the modules instead of
    before them. A distribution's own one, next to the standard library, does not affect the modules."""
    from _frozen_importlib_external import PathFinder

    site: Any = sys.modules.get("site")
    names = ["sitecustomize"] + (["usercustomize"] if getattr(site, "ENABLE_USER_SITE", False) else [])
    own = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    for name in names:
        spec = PathFinder.find_spec(name, path)
        if (
            spec is not None
            and spec.loader is not None
            and os.path.dirname(spec.origin or "") != os.path.dirname(os.__file__)
        ):
            raise Doubt(f"{spec.origin} is loaded before the script")


def top_names(names: "Iterable[str]") -> "Set[str]":
    """Return the top-level names of the modules `names`: "torch" for "torch.nn"."""
    return {name.partition(".")[0] for name in names}


def check_names(asked: "AbstractSet[str]", script: str) -> None:
    """Raise Doubt if one of the module names `asked`, which were looked up during the preloading, is the name of a
    module that a plain start finds first: next to the script, or inside of it if it is a folder. Also raise Doubt if
    the script is an archive. `script` is its path; "" for `python -m`, which searches the working directory."""
    folder = os.path.realpath(script) if script else os.getcwd()
    if not os.path.isdir(folder):
        if _is_archive(folder):
            raise Doubt(f"{script} is an archive")
        folder = os.path.dirname(folder)
    for name in _modules_in(folder):
        if name in asked:
            raise Doubt(
                f"{os.path.join(folder, name)} has the name of a module that is preloaded, or that one of them imports"
            )


def _is_archive(path: str) -> bool:
    import zipimport

    try:
        zipimport.zipimporter(path)
    except ImportError:
        return False
    return True


def _modules_in(folder: str) -> "Iterator[str]":
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_MODULE_ENDINGS):
                yield entry.name.partition(".")[0]
            elif os.path.isfile(os.path.join(entry.path, "__init__.py")):
                yield entry.name


def check_state(known: "AbstractSet[int]") -> None:
    """Raise Doubt if forks of this process would lose a thread, or share child processes, writable memory, or open
    files other than those with the descriptors `known`."""
    _check_threads()
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        if file.read().strip():
            raise Doubt("a preloaded module has started a process")
    for number in sorted(open_files() - known):
        name = os.readlink(f"/proc/self/fd/{number}")
        if name not in _HARMLESS_FILES:
            raise Doubt(f"a preloaded module keeps {name} open")
    with open("/proc/self/maps") as file:
        for line in file:
            if "w" in line.split()[1] and "s" in line.split()[1]:
                raise Doubt(f"a preloaded module shares memory: {line.split(None, 5)[-1].strip()}")


def _check_threads() -> None:
    """Raise Doubt if this process has a second thread, also after a trial fork. OpenBLAS, which numpy loads, ends its
    threads before each fork, and starts them again when it needs them. A thread that Python has joined may still be
    ending in the kernel (before Python 3.13, a join waits for a lock, not for the thread), so some time is left."""
    if _threads() > 1:
        _fork_once()
    for pause in _PAUSES:
        if _threads() == 1:
            return
        time.sleep(pause)
    if _threads() > 1:
        raise Doubt("a preloaded module has started a thread")


def _threads() -> int:
    """Return the number of this process's threads that its forks would miss, the main thread included."""
    return sum(_thread_name(number) not in _HARMLESS_THREADS for number in os.listdir("/proc/self/task"))


def _thread_name(number: str) -> str:
    try:
        with open(f"/proc/self/task/{number}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return _HARMLESS_THREADS[0]  # it has ended meanwhile


def _fork_once() -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns if there are threads
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def open_files() -> "Set[int]":
    """Return the descriptor numbers of this process's open files."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the listed folder itself
        found.add(int(name))
    return found
