"""The process that imports a node's modules, and turns into the node's ranks by forking.

In a run this is `worldsize_inrank.warm_start`, called by sitecustomize before anything else of a rank. At that moment
Python is initialised and has its command line, but has not begun with the script. The process imports the modules,
forks once for each rank, reports the process ids to the node's agent, and ends. Each fork takes over its rank's
session, log, CPUs and variables, waits until the agent is its parent and permits it to continue, and then executes the
script as any Python does.

The agent (`wings.warm_start.agent.preloader`) starts this process as it would start its first rank, without what only
single ranks have. Any doubt is reported, and the agent then starts its ranks plainly: this process itself never
executes the script.
"""

import os
import sys
import time

from . import checks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

VARIABLE = "WORLDSIZE_PRELOADER"
"""The environment variable that contains the number of the open socket to the agent, and room for variables of single
ranks."""

_WORDS, _ENVIRONMENT = 48, 50
"""The numbers of the fields arg_start and env_start in proc(5)'s stat. The field with the end follows each."""

_FAILED = 71
_NEVER = 1 << 30
"""A threshold of the garbage collector that no number of new objects reaches."""

_WAIT = 0.0005
_CHUNK = 1 << 16


def become_rank() -> None:
    """Import the modules that the agent names, and fork the node's ranks. Return only in each forked rank, at the point
    where its plain start would continue; the importing process itself exits."""
    order: Dict[str, Any] = {"loaded": frozenset(sys.modules), "process": os.getpid()}
    rank: Optional[int] = None
    try:
        order["socket"] = int(os.environ.pop(VARIABLE).split()[0])
        os.set_inheritable(order["socket"], False)  # else processes of a module would keep it open after this one
        order.update(_receive(order["socket"]))
        rank = _fork_ranks(order)
    except BaseException as error:  # noqa: BLE001  after any error, this process must not begin with the script
        reason = str(error) if isinstance(error, checks.Doubt) else f"{type(error).__name__}: {error}"
        _send(order, {"doubt": reason})
    finally:
        if rank is None:
            os._exit(_FAILED)  # must not look like a rank that has succeeded
    try:
        _take_place(order, order["ranks"][rank], order["logs"][rank])
    except BaseException:  # noqa: BLE001  a rank with another one's variables would spoil the run
        os._exit(_FAILED)


def _receive(number: int) -> "Dict[str, Any]":
    """Read the agent's next message, one line of JSON, from the socket with the descriptor `number`, and return its
    fields. Raise Doubt if the agent is gone."""
    import json

    data = b""
    while not data.endswith(b"\n"):
        more = os.read(number, _CHUNK)
        if not more:
            raise checks.Doubt("the agent has ended")
        data += more
    found: Dict[str, Any] = json.loads(data)
    return found


def _send(order: "Dict[str, Any]", message: "Dict[str, Any]") -> None:
    """Send `message` to the agent as a line of JSON, on the socket in `order`. Do nothing if the agent is gone."""
    import json

    try:
        os.write(order["socket"], json.dumps(message).encode() + b"\n")
    except (KeyError, OSError):
        pass


def _fork_ranks(order: "Dict[str, Any]") -> "Optional[int]":
    """Import the modules of `order`, and fork once for each rank. Return the rank's index in each fork, and None in the
    process that has forked all of them. Raise Doubt if ranks must not be forked, and any error of the modules."""
    import gc

    before = checks.open_files()
    for number in order["logs"]:
        os.set_inheritable(number, False)
    checks.check_start(order)
    _write_memory(_address(_ENVIRONMENT), b"")  # an error must occur here, where it can be reported
    asked = _import_modules(order)
    checks.check_state(before | {order["output"]})
    checks.check_names(asked.union(checks.top_names(sys.modules.keys() - order["loaded"])), order["script"])
    gc.freeze()  # otherwise the first collection in each rank would copy all objects' memory
    _send(order, {"imported": order["modules"]})
    order.update(_receive(order["socket"]))
    ready, order["ready"] = os.pipe()
    pids: List[int] = []
    for number in range(len(order["ranks"])):
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            return number
        pids.append(pid)
    os.close(order["ready"])
    waiting = b"".join(iter(lambda: os.read(ready, len(pids)), b""))
    if len(waiting) < len(pids):
        raise checks.Doubt("a fork ended before it was a rank")
    _send(order, {"pids": pids})
    return None


def _import_modules(order: "Dict[str, Any]") -> "frozenset[str]":
    """Import the modules that `order` names. Their output is written to a file in memory, `order["output"]`. Return the
    top-level names of all modules that were looked up meanwhile. Garbage collection is off: it would take a sixth of
    the time of importing torch."""
    import gc

    order["output"] = output = os.memfd_create("worldsize-preload")
    for number in (1, 2):
        os.dup2(output, number)
    finder = checks.AskedNames()
    sys.meta_path.insert(0, finder)
    thresholds = gc.get_threshold()
    gc.set_threshold(_NEVER, *thresholds[1:])
    try:
        for name in order["modules"]:
            __import__(name)
    finally:
        if gc.get_threshold()[0] == _NEVER:  # no module has set another one
            gc.set_threshold(*thresholds)
        sys.meta_path.remove(finder)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    return frozenset(finder.names)


def _take_place(order: "Dict[str, Any]", rank: "Dict[str, Any]", log: int) -> None:
    """Turn this fork of the preloading process into a rank: set the session, log, CPUs and variables that a plain start
    would set for the rank, and wait until the agent permits it to continue."""
    os.setsid()
    if rank["cpus"]:
        os.sched_setaffinity(0, rank["cpus"])
    os.write(order["ready"], b"r")
    os.close(order["ready"])
    for number in (1, 2):
        os.dup2(log, number)
    if os.read(order["socket"], 1) != b"g":
        os._exit(_FAILED)
    time.sleep(rank["after"])
    _write_output(order["output"])
    for number in (order["socket"], order["output"], *order["logs"]):
        os.close(number)
    os.environ.update(rank["variables"])
    for name in rank["without"]:
        os.environ.pop(name, None)
    _show_variables(rank)
    if rank["words"] != order["words"]:
        _set_words(rank["words"])
    _draw_anew()
    _collect_at_exit()
    sys.modules.pop(__name__ + ".checks", None)
    sys.modules.pop(__name__, None)
    _wait_for_parent(order["process"], order["agent"])


def _write_output(output: int) -> None:
    """Write the output that the modules printed when they were imported, from the file with the descriptor `output`, to
    the rank's log, as each rank would have printed it. The forks share the file's position."""
    place = 0
    while True:
        data = os.pread(output, _CHUNK, place)
        if not data:
            return
        place += os.write(1, data)


def _show_variables(rank: "Dict[str, Any]") -> None:
    """Make /proc/PID/environ show the variables of this forked rank. They overwrite the variable that the agent has
    made large enough. C's `environ` no longer points to anything that is overwritten."""
    own = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in rank["variables"].items())
    gone = {os.fsencode(name) for name in (VARIABLE, *rank["variables"], *rank["without"])}
    place = _address(_ENVIRONMENT)
    with open("/proc/self/environ", "rb") as file:
        entries = file.read().split(b"\0")
    for entry in entries:
        name = entry.partition(b"=")[0]
        if entry and name in gone:
            text = own if name == os.fsencode(VARIABLE) and len(own) <= len(entry) else b""
            _write_memory(place, text.ljust(len(entry), b"\0"))
        place += len(entry) + 1


def _set_words(words: "List[str]") -> None:
    """Replace the words of this process's command line after the first one by `words`, for Python (sys.argv) and for
    other processes (/proc/PID/cmdline). They must occupy the same number of bytes as the former ones."""
    count = len(sys.argv) - 1
    if count:
        sys.argv[1:] = words[-count:]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[1:] = words[1:]
    with open("/proc/self/cmdline", "rb") as file:
        start = _address(_WORDS) + file.read().index(b"\0") + 1
    _write_memory(start, b"".join(os.fsencode(word) + b"\0" for word in words[1:]))


def _address(field: int) -> int:
    """Return the memory address of this process's command line or of its environment variables. `field` is the number
    of the field in proc(5)'s stat."""
    with open("/proc/self/stat", "rb") as file:
        return int(file.read().rpartition(b") ")[2].split()[field - 3])


def _write_memory(address: int, data: bytes) -> None:
    """Overwrite this process's own memory at `address` with `data`. `_ctypes` is used directly, since ctypes would load
    modules whose names the script's folder may contain too."""
    import _ctypes

    class Number(_ctypes._SimpleCData):  # type: ignore[type-arg]
        _type_ = "P"

    memmove = _ctypes.dlsym(_ctypes.dlopen(None, 0), "memmove")  # type: ignore[arg-type]
    _ctypes.call_function(memmove, (Number(address), data, Number(len(data))))


def _draw_anew() -> None:
    """Renew, in a forked rank, the random seeds of numpy and torch and the key of multiprocessing, which each new
    process generates itself. Python's own `random` does so after a fork."""
    modules: Dict[str, Any] = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()
    if "torch" in modules:
        modules["torch"].default_generator.seed()
    process = modules.get("multiprocessing.process")
    if process is not None:
        process.current_process()._config["authkey"] = process.AuthenticationString(os.urandom(32))


def _collect_at_exit() -> None:
    """Register an exit function of a forked rank that makes Python's last garbage collection see all objects, as in a
    plain start, if objects with finalizers exist. A full collection takes a quarter of the time of the imports. The
    function that is registered first is called last."""
    import atexit
    import gc

    def thaw() -> None:
        kinds = set(map(type, gc.get_objects()))  # only objects created in this rank
        if any("__del__" in vars(base) for kind in kinds for base in kind.__mro__):
            gc.unfreeze()

    atexit.register(thaw)


def _wait_for_parent(process: int, agent: int) -> None:
    """Wait until the preloading process `process`, which has forked this one, has ended, after which the process
    `agent` adopts its forks. Exit if the agent has ended meanwhile."""
    while os.getppid() == process:
        time.sleep(_WAIT)
    if os.getppid() != agent:
        os._exit(_FAILED)
