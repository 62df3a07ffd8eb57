"""Signals that a selector can wait for: a file descriptor that becomes readable, and the signals that have arrived
since."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable

from worldsize.common.atomic_files import read_if_possible

STOP = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
"""Signals that request the end with a grace period. A repeated request changes nothing, since launchers and users
signal twice by accident."""

STOP_NOW = signal.SIGQUIT
"""The signal that requests the end at once."""

NOTICES = (
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip
"""Signals that schedulers send to all processes of a step at once, or only to its tasks, and that are meant for the
ranks."""

_TRACKED = r"(?m)^(?:0:|[0-9]+:freezer):.*/job_[0-9]+/step_"
"""The control group by which Slurm identifies the processes of a step; in version 1, the freezer's."""

_CAUGHT_SIGNALS = STOP | {STOP_NOW, signal.SIGCHLD}


def ignore_notices() -> None:
    """Ignore the signals NOTICES (USR1, USR2 and others that schedulers send for the ranks), so that they neither end
    nor stop this process or its forks. In programs that `processes.spawn` starts, they have their default effect."""
    for number in NOTICES:
        signal.signal(number, signal.SIG_IGN)


def is_in_step_cgroup(groups: str = "/proc/self/cgroup") -> bool:
    """Return whether this process is a task of a Slurm step that Slurm tracks with control groups, according to the
    file `groups`. Slurm then sends the signals NOTICES to this process, and not to the processes that it starts."""
    text = read_if_possible(groups).decode("utf-8", "replace")
    return "/job_" in text and re.search(_TRACKED, text) is not None


def pass_on_notices(living: Callable[[], Iterable[int]]) -> None:
    """Install handlers that pass the signals USR1, USR2 and XCPU on to the processes whose pids `living()` returns.
    Call this if a scheduler sends them to this process only: to a batch script, in whose place the agent runs, or to a
    task."""

    def pass_on(number: int, _: object) -> None:
        for pid in list(living()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:  # it has just ended
                pass

    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
        signal.signal(number, pass_on)


class SignalPipe:
    """A pipe that receives the signals of `hold_signals`. From its creation on these signals do not end this process,
    and are no longer held back: `take` returns them."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in _CAUGHT_SIGNALS:
            signal.signal(number, _do_nothing)
        release_signals()

    def fileno(self) -> int:
        return self._reading

    def take(self) -> set[int]:
        """Return the numbers of the signals that this process has received since the last call."""
        try:
            return set(os.read(self._reading, 1 << 16))
        except BlockingIOError:
            return set()

    def forget(self) -> None:
        """Close the signal pipe in a forked child, because it belongs to the parent."""
        signal.set_wakeup_fd(-1)
        os.close(self._reading)
        os.close(self._writing)


def hold_signals() -> Iterable[int]:
    """Hold back the signals that a `SignalPipe` catches, in this process and in forked children, until
    `release_signals` or `SignalPipe()`. No signal is lost.

    Return the signals that were held back before.
    """
    return signal.pthread_sigmask(signal.SIG_BLOCK, _CAUGHT_SIGNALS)


def release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CAUGHT_SIGNALS)


def _do_nothing(*_: object) -> None:
    """Do nothing when a signal arrives. Python has written the signal's number to the pipe of `SignalPipe` before this
    handler is called."""
