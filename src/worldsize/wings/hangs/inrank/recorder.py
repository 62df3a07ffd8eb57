"""The part of a rank that writes the dumps of PyTorch's Flight Recorder when the node's agent requests them, regardless
of what the rank's main thread waits for. It also sets the variables that torch reads before it records.

A thread waits at a pipe whose name is removed as soon as the pipe is open. The agent finds the pipe among the rank's
descriptors (`wings.hangs.agent.recorder_dumps`). In a process that the rank has forked or started, no thread waits at
it. There is no answer while another thread holds Python's lock. NCCL's recorder is dumped in the same way as gloo's,
without `TORCH_NCCL_DEBUG_INFO_PIPE_FILE`. torch ends the rank if it cannot make that pipe, for example in a container
that does not see the folder. Its own thread also needs Python's lock for the frames that it adds
(`ProcessGroupNCCL.cpp`, `HeartbeatMonitor::runLoop`).

The module is loaded after torch, so that other processes do not load it.
"""

import os
import sys

_ALWAYS = 64
_SIZE = "2000"
"""The number of calls that are kept, which is the default of newer torch."""

_FILES = "/nccl-rank-"
"""The end of the prefix of the names of NCCL's own dumps. A variable with this end was set by a rank, perhaps of the
run that this one was started in."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def set_variables(base: str) -> None:
    """Set the variables of torch's Flight Recorder that the user has not set: among others the number of calls that the
    recorder keeps, and the path of the dumps that NCCL's watchdog writes by itself. `base` is the same as for `start`.
    From the release on that also records for gloo (2.8), the variables have new names, and the old names cause a
    warning in each rank's log.

    TORCH_INCLUDE_STACK_TRACE is 0, since a dump with Python's frames waits for Python's lock (pytorch#167023).
    TORCH_NCCL_DUMP_ON_TIMEOUT is 1, the default since pytorch#143446.
    """
    is_new = hasattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace")
    wanted = {
        ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"): _SIZE,
        ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"): os.path.dirname(base) + _FILES,
        ("TORCH_NCCL_DUMP_ON_TIMEOUT",): "1",
        ("TORCH_INCLUDE_STACK_TRACE",): "0",
    }
    for names, value in wanted.items():
        if all(os.environ.get(name, _FILES).endswith(_FILES) for name in names):
            os.environ[names[0 if is_new else -1]] = value


def start(base: str) -> None:
    """Start the thread that waits at a pipe for requests for Flight Recorder dumps. `base` is the path of the rank's
    file of stacks, without its ending. Raise OSError."""
    import _thread  # without `threading`, which waits for its threads

    path = f"{base}.{os.getpid()}.recorder"
    os.mkfifo(path, 0o600)
    try:
        pipe = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        os.unlink(path)
    _thread.start_new_thread(_answer, (pipe, base))


def _answer(pipe: int, base: str) -> None:
    """Write Flight Recorder dumps for each request that the descriptor `pipe` receives, until another file has its
    descriptor number."""
    wanted = os.fstat(pipe).st_ino
    try:
        while os.fstat(pipe).st_ino == wanted and os.read(pipe, _ALWAYS):
            try:
                _write(base)
            except Exception:  # noqa: BLE001  a rank is worth more than its dump
                pass
    except OSError:
        pass  # the rank has closed all descriptors that it does not know


def _write(base: str) -> None:
    """Write the Flight Recorder dumps of NCCL, and last that of gloo, to files whose paths begin with `base`. Do
    nothing if this torch has no recorder."""
    distributed = sys.modules.get("torch._C._distributed_c10d")
    own, nccl = (getattr(distributed, name, None) for name in ("_dump_fr_trace", "_dump_nccl_trace"))
    if nccl is not None:
        try:
            _put(base + (".dump" if own is None else ".nccl.dump"), _dump_of_nccl(nccl))
        except Exception:  # noqa: BLE001  gloo's may be available nevertheless
            pass
    if own is not None:  # with frames torch imports its compiler, to look for those of compiled code
        _put(base + ".dump", own(includeStackTraces=False))


def _dump_of_nccl(dump: "Callable[..., bytes]") -> bytes:
    try:
        return dump(includeStackTraces=False)
    except TypeError:  # before torch 2.4
        return dump()


def _put(path: str, data: bytes) -> None:
    """Write the data to `path`, whole or not at all."""
    mode = os.stat(os.path.dirname(path)).st_mode & 0o666
    temporary = f"{path}.{os.getpid()}"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
    finally:
        os.close(file)
    os.rename(temporary, path)
