"""Signals as something to wait for: a file descriptor that becomes readable, and what came in since."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable

from worldsize.common.atomic_files import read_if_possible

STOP = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
"""Asks for the end, with grace; asking again changes nothing, since launchers and users signal twice by accident."""

STOP_NOW = signal.SIGQUIT
"""Asks for the end at once."""

NOTICES = (
    signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
)  # fmt: skip
"""What schedulers send to all processes of a step at once, or to its tasks alone, and mean for the ranks."""

_TRACKED = r"(?m)^(?:0:|[0-9]+:freezer):.*/job_[0-9]+/step_"
"""The control group by which Slurm knows the processes of a step; in version 1, that of the freezer is."""

_CAUGHT_SIGNALS = STOP | {STOP_NOW, signal.SIGCHLD}


def ignore_notices() -> None:
    """They end or stop neither us nor what we fork; what `processes.spawn` starts finds them as if nobody had."""
    for number in NOTICES:
        signal.signal(number, signal.SIG_IGN)


def is_in_step_cgroup(groups: str = "/proc/self/cgroup") -> bool:
    """Whether Slurm sends them to us, a step's task, and not to what we start: so it does with control groups."""
    text = read_if_possible(groups).decode("utf-8", "replace")
    return "/job_" in text and re.search(_TRACKED, text) is not None


def pass_on_notices(living: Callable[[], Iterable[int]]) -> None:
    """Where a scheduler sends them to us alone: a batch script's, where we stand in its place, and a task's."""

    def pass_on(number: int, _: object) -> None:
        for pid in list(living()):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU):
        signal.signal(number, pass_on)


class SignalPipe:
    """From now on this process ends by none of these signals, but hears of them; they are no longer held back."""

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
        """The signals since the last call."""
        try:
            return set(os.read(self._reading, 1 << 16))
        except BlockingIOError:
            return set()

    def forget(self) -> None:
        """In a forked child: these are the parent's."""
        signal.set_wakeup_fd(-1)
        os.close(self._reading)
        os.close(self._writing)


def hold_signals() -> Iterable[int]:
    """Holds these signals back, here and in forked children, until `release_signals` or `SignalPipe()`: none is lost.

    Returns the signals that were held back before.
    """
    return signal.pthread_sigmask(signal.SIG_BLOCK, _CAUGHT_SIGNALS)


def release_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _CAUGHT_SIGNALS)


def _do_nothing(*_: object) -> None:
    """The number was written to the pipe before this is called."""
