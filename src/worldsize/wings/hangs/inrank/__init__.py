"""The hook by which each Python of a rank writes its threads' stacks when the node's agent sends a signal. It also
allows the agent's children to read them from outside. Once torch is loaded, the rank's own Python also waits for
requests for the dump of torch's Flight Recorder (`recorder`).

In a run this is `worldsize_inrank.hangs`, called by sitecustomize. faulthandler writes from C, regardless of what the
rank waits for, also while C code holds Python's lock. The file is opened when the rank starts, so that only the open
file is needed later. The sender of the signal checks first that the process catches it, and that it has the file open
(`wings.hangs.agent.signal_dumps`).

Errors here are ignored: a rank is worth more than its stack.
"""

import os  # and next to nothing else, `__future__` neither: every start of a rank pays for it
import sys

SIGNALS_BELOW_LAST = 3
"""The signal is SIGRTMAX minus this number. No other use of it is known: glibc uses the first two real-time signals,
Valgrind the last one."""

_COLLECTIVES = "torch.distributed.distributed_c10d"
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_PR_SET_PTRACER = 0x59616D61


def at_start() -> None:
    """Prepare this rank's Python for requests for its stacks: register faulthandler, allow tracing, and wait for torch.
    Takes less than a millisecond, and raises nothing."""
    for part in (_register, _allow_tracing, _wait_for_torch):
        try:
            part()
        except Exception:  # noqa: BLE001  no error here may end a rank
            pass


def stacks_file(error_file: str) -> str:
    """Return the path of the file for the stacks of the rank whose exceptions go to `error_file`. It has the same name,
    with the ending .txt, in the folder `stacks` next to the folder of `error_file`."""
    folder, name = os.path.split(error_file.replace("%t", os.environ.get("SLURM_PROCID", "0").zfill(5)))
    return os.path.join(os.path.dirname(folder), "stacks", name.rpartition(".")[0] + ".txt")


def _register() -> None:
    """Register faulthandler to write the stacks of all threads at the dump signal, unless this process has a handler
    for that signal already. Handlers are not chained, since the signal ends the process by default."""
    import _signal  # type: ignore[import-not-found]  # the source of `signal`'s enums
    import faulthandler

    number = _signal.SIGRTMAX - SIGNALS_BELOW_LAST
    if "WORLDSIZE_ERROR_FILE" in os.environ and _signal.getsignal(number) in (_signal.SIG_DFL, _signal.SIG_IGN):
        faulthandler.register(number, file=_open(stacks_file(os.environ["WORLDSIZE_ERROR_FILE"])), all_threads=True)


def _open(path: str) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = os.path.dirname(path)
    mode = os.stat(os.path.dirname(folder)).st_mode
    try:
        return os.open(path, flags, mode & 0o666)
    except FileNotFoundError:
        try:
            os.mkdir(folder, mode & 0o777)
        except FileExistsError:
            pass  # another rank has made it
        return os.open(path, flags, mode & 0o666)


class _AtTorch:
    """A finder that finds nothing. It starts the recorder once, when torch imports its collectives."""

    def __init__(self) -> None:
        self.is_waiting = True

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == _COLLECTIVES and self.is_waiting:
            self.is_waiting = False
            try:
                start_recorder()
            except Exception:  # noqa: BLE001  as in `at_start`
                pass


def _wait_for_torch() -> None:
    if "WORLDSIZE_ERROR_FILE" not in os.environ:
        return
    if _COLLECTIVES in sys.modules:  # imported before this rank was forked
        start_recorder()
    else:
        sys.meta_path.insert(0, _AtTorch())


def start_recorder() -> None:
    """Set the variables that torch's Flight Recorder reads, if the job has a watchdog. Start the thread that waits for
    requests for a dump, if this process is the rank's own Python. Raise OSError."""
    from . import recorder

    base = stacks_file(os.environ["WORLDSIZE_ERROR_FILE"]).rpartition(".")[0]
    if "WORLDSIZE_WATCHDOG" in os.environ:
        recorder.set_variables(base)
    if os.environ.get("WORLDSIZE_RANK_PYTHON", "").partition(" ")[0] == str(os.getpid()):
        recorder.start(base)


def _allow_tracing() -> None:
    """Allow the agent and its descendants to trace this process if Yama allows only a process's own ancestors (scope
    1).

    According to the kernel's documentation and source (Documentation/admin-guide/LSM/Yama.rst, yama_lsm.c), the process
    that is declared and its descendants may attach. A fork is a task of its own, and has declared nothing. This was
    read, not tested, since no machine with Yama was available.
    """
    try:
        with open(_PTRACE_SCOPE) as file:
            scope = file.read().strip()
    except OSError:
        return  # no Yama
    if scope == "1":
        _declare_tracer()
        os.register_at_fork(after_in_child=_declare_in_child)


def _declare_in_child() -> None:
    try:
        _declare_tracer()
    except Exception:  # noqa: BLE001  as in `at_start`
        pass


def _declare_tracer() -> None:
    import _ctypes  # without ctypes, which takes several times as long

    agent = _agent()
    if agent > 1:
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (_PR_SET_PTRACER, agent, 0, 0, 0))


def _agent() -> int:
    """Return the ID of the process that has started this rank's session, usually the node's agent. 0 if it cannot be
    read."""
    try:
        with open(f"/proc/{os.getsid(0)}/stat") as file:
            return int(file.read().rpartition(") ")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
