"""Has each Python of a rank write its threads' stacks when the node's agent asks for them, by a signal; and lets the
agent's children read them from outside. Once torch is loaded, the rank's own Python also waits to be asked for the dump
of torch's Flight Recorder (`recorder`).

In a run this is `worldsize_inrank.hangs`, called by sitecustomize. faulthandler writes from C, whatever the rank waits
for, also while C code holds Python's lock. The file is opened as the rank starts: then it needs nothing but the open
file. Whoever sends the signal checks first that the process catches it, and that it has the file open
(`wings.hangs.agent.signal_dumps`).
Whatever fails here is let be: a rank is worth more than its stack.
"""

import os  # and next to nothing else, `__future__` neither: every start of a rank pays for it
import sys

SIGNALS_BELOW_LAST = 3
"""The signal is SIGRTMAX minus this many. Nothing that we know of uses it: glibc uses the first two of them, Valgrind
the last one."""

_COLLECTIVES = "torch.distributed.distributed_c10d"
_PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_PR_SET_PTRACER = 0x59616D61


def at_start() -> None:
    """Get ready. Takes less than a millisecond, and raises nothing."""
    for part in (_register, _allow_tracing, _wait_for_torch):
        try:
            part()
        except Exception:  # noqa: BLE001  no error here may end a rank
            pass


def stacks_file(error_file: str) -> str:
    """Where the stacks go of the rank whose exceptions go to `error_file`: the same name, and the folder `stacks`
    beside that one."""
    folder, name = os.path.split(error_file.replace("%t", os.environ.get("SLURM_PROCID", "0").zfill(5)))
    return os.path.join(os.path.dirname(folder), "stacks", name.rpartition(".")[0] + ".txt")


def _register() -> None:
    """Write all stacks at the signal, unless something in this process has a handler for it. There is no chain: the
    signal's default is to end the process."""
    import _signal  # type: ignore[import-not-found]  # what `signal` makes enums of
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
            pass  # another rank was sooner
        return os.open(path, flags, mode & 0o666)


class _AtTorch:
    """A finder that finds nothing: it starts what waits for questions once, when torch imports its collectives."""

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
    """Set what torch's recorder reads, where a job wants to know about hangs; and have this process wait to be asked
    for a dump, if it is the rank's own Python. Raises OSError."""
    from . import recorder

    base = stacks_file(os.environ["WORLDSIZE_ERROR_FILE"]).rpartition(".")[0]
    if "WORLDSIZE_WATCHDOG" in os.environ:
        recorder.set_variables(base)
    if os.environ.get("WORLDSIZE_RANK_PYTHON", "").partition(" ")[0] == str(os.getpid()):
        recorder.start(base)


def _allow_tracing() -> None:
    """Let the agent and its descendants trace this process where Yama lets only a process's own ancestors (scope 1).

    The kernel's documentation and source say so (Documentation/admin-guide/LSM/Yama.rst, yama_lsm.c): the process that
    is declared and its descendants may attach. A fork is a task of its own, and has declared nothing. This was read,
    not tried: no machine of ours has Yama.
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
    """Return the process that has started this rank's session; 0 where nobody can tell."""
    try:
        with open(f"/proc/{os.getsid(0)}/stat") as file:
            return int(file.read().rpartition(") ")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0
