"""Hooks that every Python rank loads through PYTHONPATH. They save an uncaught exception as data, let it end a program
that MPI or JAX would keep alive, let gloo's threads end before the interpreter does, and remove the rank's variables
from processes to which a launcher in the script gave another rank. They change nothing else.

The exception is written to the file that WORLDSIZE_ERROR_FILE names; the traceback is printed as usual. A sitecustomize
of the user's or the distribution's own, further down the path, is run as it would be without this file. Standard
library only, and almost nothing of it until an exception occurs.

Every Python that a rank's program starts loads this file, too. So it is written in what Python 2.7 and all later
versions understand, and before Python 3.7 it does nothing but run the user's own sitecustomize.
"""

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any  # noqa: F401  in comments, since Python 2 knows no annotations

_HERE = os.path.dirname(os.path.abspath(__file__))
_MAX_TEXT, _MAX_FRAMES, _MAX_CODE, _CONSEQUENCE_SECONDS = 20000, 50, 500, 30
_RANK_PYTHON, _RESTART, _CHILD_SUFFIX = "WORLDSIZE_RANK_PYTHON", "TORCHELASTIC_RESTART_COUNT", ".child"
_STACKS = "hangs"
_RANK_VARIABLES = ("SLURM_STEP_ID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK", "LOCAL_RANK")
_OWN_PLACE = ("WORLDSIZE_RANK", "WORLDSIZE_LOCAL_RANK", "WORLDSIZE_WORLD_SIZE")
_TORCH_PLACE = (
    "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
    "ROLE_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
)  # fmt: skip
_MPI_PLACE = tuple("OMPI_COMM_WORLD_" + each for each in ("RANK", "LOCAL_RANK", "SIZE", "LOCAL_SIZE", "NODE_RANK"))
_LAUNCHERS = frozenset(("torchrun", "deepspeed", "accelerate", "horovodrun", "colossalai", "composer"))
_LAUNCHER_MODULES = ("torch.distributed.", "deepspeed.launcher.", "accelerate.commands.")


def _run_next_sitecustomize():
    # type: () -> None
    path = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    try:
        from _frozen_importlib_external import PathFinder  # importlib's own, not imported, which saves 0.5 ms per rank
    except ImportError:
        imp = __import__("imp")  # type: Any
        try:
            file, place, description = imp.find_module("sitecustomize", path)
            imp.load_module("sitecustomize", file, place, description)
        except ImportError:
            pass  # Pythons without PathFinder ignore this too
        return
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None and spec.origin != __file__:
        from _frozen_importlib import module_from_spec

        module = module_from_spec(spec)
        spec.loader.exec_module(module)


def _write(kind, value, trace):
    # type: (Any, Any, Any) -> None
    import json
    import time
    import traceback

    frames = [
        {"file": each.filename, "line": each.lineno, "function": each.name, "code": (each.line or "")[:_MAX_CODE]}
        for each in traceback.extract_tb(trace, -_MAX_FRAMES)
    ]
    name = kind.__qualname__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__qualname__)
    try:
        message = str(value)[:_MAX_TEXT]
    except Exception:  # noqa: BLE001  the user's own __str__ may raise anything
        message = "<the exception's message could not be rendered>"
    report = {
        "type": name,
        "message": message,
        "frames": frames,
        "time": time.time(),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "command": _digest(_command_line("self")),
        "restart": os.environ.get(_RESTART, "0"),
    }
    path, launched = _error_file(), _is_launcher(os.getppid())
    if os.environ.get(_RANK_PYTHON) != _identity() and not launched:
        path += _CHILD_SUFFIX  # a library's probe may fail, and be caught
    elif _is_failure_of_child(kind, value, path + _CHILD_SUFFIX):
        os.replace(path + _CHILD_SUFFIX, path)
        return
    elif _is_consequence(path, report, launched):
        return
    temporary = "%s.%d.tmp" % (path, os.getpid())
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _mode_within(path)), "w") as file:
        json.dump(report, file)
    os.replace(temporary, path)


def _mode_within(path):
    # type: (str) -> int
    """Return the mode for a new file `path` of the run, taken from its directory: users who can read or write the
    directory can do the same with the file."""
    return os.stat(os.path.dirname(path) or ".").st_mode & 0o666


def _error_file():
    # type: () -> str
    return os.environ["WORLDSIZE_ERROR_FILE"].replace("%t", os.environ.get("SLURM_PROCID", "0").zfill(5))


def _identity():
    # type: () -> str
    """Return a text that identifies this process and the rank that it belongs to. A process that a rank starts has a
    rank of its own if mpirun or srun started it."""
    return " ".join([str(os.getpid()), _error_file()] + [os.environ.get(name, "") for name in _RANK_VARIABLES])


def _command_line(process):
    # type: (Any) -> list[str]
    try:
        with open("/proc/%s/cmdline" % process, "rb") as file:
            return file.read(65536).decode("utf-8", "replace").split("\0")[:-1]
    except OSError:
        return []


def _digest(words):
    # type: (list[str]) -> str
    """Return the SHA-256 digest of a command line (`words`), which is recorded instead of the command line, since that
    may contain secrets."""
    import hashlib

    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()


def _is_launcher(process):
    # type: (Any) -> bool
    """Return whether `process` (a process id, or "self") is a launcher such as torchrun, which starts ranks of its own.
    Its exceptions explain less than those of its ranks."""
    words = _command_line(process)[:5]
    return any(os.path.basename(word) in _LAUNCHERS or word.startswith(_LAUNCHER_MODULES) for word in words)


def _is_failure_of_child(kind, value, path):
    # type: (Any, Any, str) -> bool
    """Return whether the exception `value` is a CalledProcessError for a child process whose own exception is recorded
    in the file `path`."""
    subprocess = sys.modules.get("subprocess")  # type: Any
    if subprocess is None or not issubclass(kind, subprocess.CalledProcessError):
        return False
    words = value.cmd
    if not isinstance(words, (list, tuple)):
        import shlex

        try:
            words = shlex.split(str(words))
        except ValueError:
            return False  # quotes that only a shell understands
    first = _read(path)
    return first is not None and first.get("command") == _digest([str(word) for word in words])


def _is_consequence(path, report, launched):
    # type: (str, dict[str, Any], bool) -> bool
    """Return whether the exception in `report` only follows from the one that another process recorded in the file
    `path` less than 30 s before: this process is a launcher (`launched`: a program that a launcher started), and the
    other one was its rank.

    A program that the rank's shell executed before is not such a rank. The shell may have been replaced by its last
    program, so the parent's id alone does not prove it.
    """
    first = _read(path)
    if first is None or first["pid"] == report["pid"] or report["time"] - first["time"] >= _CONSEQUENCE_SECONDS:
        return False
    parent = first.get("parent")
    return bool(parent == (report["parent"] if launched else report["pid"]) and (launched or _is_launcher("self")))


def _read(path):
    # type: (str) -> Any
    """Return the report of an exception, a dictionary, that a process of this rank has written to the file `path`; None
    if there is none, or if the file contains something else."""
    import json

    try:
        with open(path) as file:
            report = json.load(file)
        return report if isinstance(report["pid"], int) and isinstance(report["time"], float) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _hook(kind, value, trace):
    # type: (Any, Any, Any) -> None
    try:
        if not issubclass(kind, KeyboardInterrupt):  # an import makes Python forget that SIGINT must end it
            _write(kind, value, trace)
    except Exception:  # noqa: BLE001  no error, such as a full disk, may hide the traceback or keep ranks waiting
        pass
    _former_excepthook(kind, value, trace)
    _abort_mpi()
    _leave_jax()


def _abort_mpi():
    # type: () -> None
    """Abort all ranks of the MPI program that this process belongs to, if mpi4py is in use with more than one rank. At
    the interpreter's end mpi4py would wait for all ranks, which may wait for this one."""
    mpi = sys.modules.get("mpi4py.MPI")  # type: Any
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        _flush(sys.stdout)
        mpi.COMM_WORLD.Abort(1)


def _leave_jax():
    # type: () -> None
    """Replace JAX's shutdown function with one that ends the process with code 1, if JAX runs distributed. At that
    point JAX would wait five minutes for all ranks."""
    distributed = sys.modules.get("jax._src.distributed")  # type: Any
    state = getattr(distributed, "global_state", None)
    if getattr(state, "client", None) is not None and getattr(state, "num_processes", 1) > 1:
        distributed.shutdown = _end


def _end():
    # type: () -> None
    _flush(sys.stdout)
    _flush(sys.stderr)
    os._exit(1)


def _flush(stream):
    # type: (Any) -> None
    try:
        stream.flush()
    except (AttributeError, OSError, ValueError):
        pass  # the stream is gone


def _leave_gloo():
    # type: () -> None
    """Drop all references to a process group that the script has destroyed. They keep gloo's threads alive, which may
    abort the process at its end. The references are in each DistributedDataParallel, and in the defaults of
    torch.distributed.nn.functional, which torch imports with the first of them. None as a default means the current
    group."""
    functional = sys.modules.get("torch.distributed.nn.functional")  # type: Any
    distributed = sys.modules.get("torch.distributed")  # type: Any
    if functional is None or distributed.is_initialized() or getattr(sys, "last_type", None) is not None:
        return
    for each in vars(functional).values():
        kept = getattr(each, "__defaults__", None)
        if kept:
            each.__defaults__ = tuple(None if isinstance(one, distributed.ProcessGroup) else one for one in kept)
    import gc

    parallel = sys.modules["torch.nn.parallel"].DistributedDataParallel
    objects = gc.get_objects()
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, parallel)}  # far fewer than objects
    for model in [each for each in objects if type(each) in kinds]:
        for name in ("reducer", "logger", "process_group"):
            model.__dict__.pop(name, None)


def _become_rank():
    # type: () -> None
    """Set the environment variables and the log of this rank, whose launcher knows neither, as the agent has recorded
    them in the file rank-RANK.json. Do nothing if the rank is not in the plan."""
    import json

    place = "%s/rank-%s.json" % (os.environ.pop("WORLDSIZE_LAUNCH"), os.environ["RANK"])
    try:
        with open(place) as file:
            found = json.load(file)
        log = os.open(found["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, _mode_within(found["log"]))
    except (OSError, ValueError):
        return  # a rank that is not in the plan
    os.environ.update(found["environment"])
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def _forget_place_of_rank():
    # type: () -> None
    """Remove the variables with the rank's place if a launcher in the script gave this process another place, by
    torch's variables (torchrun) or by Open MPI's (mpirun). DeepSpeed refuses two places; accelerate uses torch's."""
    own, torch, mpi = ([os.environ.get(name) for name in names[:3]] for names in (_OWN_PLACE, _TORCH_PLACE, _MPI_PLACE))
    if own in (torch, mpi) and torch != mpi and None not in torch + mpi:
        for name in _TORCH_PLACE if torch == own else _MPI_PLACE:
            os.environ.pop(name, None)


def _forget_former_start():
    # type: () -> None
    """Remove the file with the exception of this rank if an earlier start of the rank wrote it. torchrun starts its
    ranks again after a failure."""
    report = _read(_error_file())
    if report is not None and report.get("restart", "") != os.environ[_RESTART]:
        try:
            os.unlink(_error_file())
        except OSError:
            pass  # another rank of this torchrun removed it first


class _MLflowFinder:
    """Finder that imports MLflow's plug-ins from the run's agent.pyz. The entry points next to this file name them."""

    def find_spec(self, name, path=None, target=None):
        # type: (str, Any, Any) -> Any
        if name == "worldsize_mlflow":
            from _frozen_importlib_external import PathFinder

            return PathFinder.find_spec(name, [os.path.dirname(_HERE) + "/agent.pyz/worldsize/wings/metrics/agent"])


def _start():
    # type: () -> None
    if "WORLDSIZE_LAUNCH" in os.environ and "RANK" in os.environ:
        _become_rank()
    _forget_place_of_rank()
    if os.environ.get("WORLDSIZE_ERROR_FILE"):
        first, _, place = os.environ.get(_RANK_PYTHON, "").partition(" ")
        is_launched = first == str(os.getppid()) and _is_launcher(first)  # the launcher itself has the place of a rank
        if is_launched or place != _identity().partition(" ")[2]:
            os.environ[_RANK_PYTHON] = _identity()
        if os.environ.get(_RESTART, "0") != "0":
            _forget_former_start()
        sys.excepthook = _hook
        atexit.register(_leave_gloo)
    if os.environ.get("MLFLOW_TRACKING_URI", "").endswith("/mlruns"):
        sys.meta_path.append(_MLflowFinder())


def _load_packages(names):
    # type: (list[str]) -> None
    """Load the packages of `worldsize_inrank` that the run uses in its ranks (`names`). If this Python is too old for
    them, rank 0 prints that. The package of every run (`_STACKS`) is loaded first. It fails silently, and is loaded
    without the module that loads the others, which takes longer."""
    is_new = sys.version_info >= (3, 8)  # a rank's program may start any Python
    if _STACKS in names:
        names.remove(_STACKS)
        try:
            if is_new:
                getattr(__import__("worldsize_inrank." + _STACKS), _STACKS).at_start()
        except ImportError:
            pass  # its folder was removed while this process started
    if names and is_new:
        __import__("worldsize_inrank.import_hook").import_hook.load(",".join(names))
    elif names and os.environ.get("WORLDSIZE_RANK", "0") == "0":
        words = "worldsize: Python %d.%d is too old for %s in ranks: 3.8 or newer is needed\n"
        sys.stderr.write(words % (sys.version_info[0], sys.version_info[1], ",".join(names).replace("_", " ")))


def _become_fork():
    # type: () -> None
    """Fork the node's ranks from this process, which has imported the modules that the ranks need, and return in each
    rank. This process ends here."""
    try:
        start = __import__("worldsize_inrank.warm_start").warm_start.become_rank
    except BaseException:  # noqa: BLE001  after any error this process is no rank, and must not start the script
        os._exit(1)
    start()


_former_excepthook = sys.excepthook
if "WORLDSIZE_PRELOADER" in os.environ:
    _become_fork()
if sys.version_info >= (3, 7):  # noqa: UP036  a rank's program may start any Python
    _start()
if os.environ.get("WORLDSIZE_INRANK"):
    _load_packages(os.environ["WORLDSIZE_INRANK"].split(","))
_run_next_sitecustomize()
