"""Signals as something to wait for: a file descriptor that becomes readable, and what came in since."""

from __future__ import annotations

import os
import signal

STOP = frozenset((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
"""Asks for the end, with grace; asking again changes nothing, since launchers and users signal twice by accident."""

STOP_NOW = signal.SIGQUIT
"""Asks for the end at once."""

_HEARD = STOP | {STOP_NOW, signal.SIGCHLD}


class Signals:
    """From now on this process ends by none of these signals, but hears of them; they are no longer held back."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in _HEARD:
            signal.signal(number, _heard)
        release()

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


def hold() -> None:
    """Hold these signals back, here and in forked children, until `release` or `Signals()`: none is lost between."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)


def release() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


def _heard(*_: object) -> None:
    """The number was written to the pipe before this is called."""
