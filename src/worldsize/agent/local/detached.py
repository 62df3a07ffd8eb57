"""Detached processes: a conductor, or a queue of runs. They outlive this process and keep none of its files open.

The process is forked if this process has one thread. Otherwise it is a new program, since a fork would copy the
threads' locks in the locked state.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from worldsize.agent.posix.processes import TERMINAL
from worldsize.agent.posix.signals import STOP, STOP_NOW, hold_signals, ignore_notices
from worldsize.common.named_tuple import Any, NoReturn
from worldsize.trust.procfs import set_process_title


def fork_detached(run: Callable[[], int], log: str, umask: int, root: str) -> int:
    """Fork a process that calls `run`, outlives this process and keeps none of its files open. Return its pid. The
    child never returns. Its process title is not this process's command line, but the name of the directory `root`.

    A signal that is sent to the child at once waits for the `SignalPipe()` of `run`, however this process handles
    signals.
    """
    gc.freeze()
    held = hold_signals()
    try:
        pid = os.fork()
        if pid == 0:
            run_as_program(partial(_run_detached, run, log, umask, root))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    gc.unfreeze()
    return pid


def spawn_detached(argv: Sequence[str], log: str, environ: Mapping[str, str], terminal: bool = False) -> int:
    """Start Python with the arguments `argv` as a new program that outlives this process and keeps none of its files
    open. The output is appended to the file `log`. Return the pid.

    With `terminal` the program stays in this session, in its own process group, and has this process's three streams as
    `TERMINAL`.
    """
    kept = [(os.POSIX_SPAWN_DUP2, number, file) for number, file in enumerate(TERMINAL)] if terminal else []
    place: dict[str, Any] = {"setpgroup": 0} if terminal else {"setsid": True}
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *argv],
        environ,
        file_actions=[
            *kept,
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsigmask=[*STOP, STOP_NOW],  # a signal that is sent at once waits for the SignalPipe
        **place,
    )


def run_as_program(run: Callable[[], int]) -> NoReturn:
    """Call `run` at the top of a forked process, and end the process with the returned code; 1 if `run` raises an
    exception, whose traceback is printed."""
    code = 1
    try:
        code = run()
    except BaseException:  # noqa: BLE001  every exception must be in the log before this process ends
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _run_detached(run: Callable[[], int], log: str, umask: int, root: str) -> int:
    gc.enable()
    os.setsid()
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # signals that a terminal sent before `setsid` were not for this process
    ignore_notices()
    os.umask(umask)
    _redirect(log)
    set_process_title(f"worldsize {os.path.basename(root)}")
    return run()


def import_from(bundle: str) -> None:
    """Change where this process finds modules of worldsize that it has not imported yet: in the agent.pyz `bundle` of
    its run, which stays as it is if the installation is replaced or removed. The first import then takes 3 ms more, so
    modules that every run needs are imported before."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "worldsize" and hasattr(module, "__path__"):
            module.__path__ = [os.path.join(bundle, *name.split(".")), *module.__path__]


def _redirect(log: str) -> None:
    """Close the files that this forked process has inherited from its parent, so that the parent's pipes and sockets
    end with the parent. Read standard input from /dev/null, and append standard output and error to the file `log`."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, out), (2, out)):
        os.dup2(source, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdout = sys.stderr = open(2, "w", buffering=1, closefd=False)  # the old streams may write to closed files
