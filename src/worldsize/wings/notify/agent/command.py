"""One call of the command of `notify`: a time limit, a bound on what it prints, and nothing left behind.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Mapping

from worldsize.agent.posix.processes import RESET_SIGNALS, exit_code, find_program, signal_group
from worldsize.common.named_tuple import NamedTuple

LIMIT = 30.0
"""Seconds that the command may take."""

MOST_PRINTED = 1 << 16
"""Bytes of what a call prints that are kept."""

IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""What a scheduler or a terminal sends to all processes of a run that ends: the command is to tell of that end."""

_SHORTEST, _LONGEST = 0.002, 0.05
"""Seconds between two looks whether it has ended."""


class Call(NamedTuple):
    """How a call went. `code`: None where the command was ended after its time limit; `printed`: what is kept."""

    code: int | None
    seconds: float
    printed: bytes


def call_command(command: str, text: str, environ: Mapping[str, str], limit: float = LIMIT) -> Call:
    """Have bash execute the command, in the current directory, with `text` on its standard input; wait until it has
    ended, or end it. What it leaves in its process group is ended with it. Raises OSError where there is no bash."""
    started = time.monotonic()
    inlet, feed = os.pipe()
    outlet, printing = os.pipe()
    try:
        os.set_blocking(feed, False)
        os.write(feed, text.encode())
        os.close(feed)
        feed = -1
        pid = _spawn(command, environ, inlet, printing)
        os.close(printing)
        printing = -1
        output = _Output(outlet)
        ended = _wait(pid, output, started + limit)
        signal_group(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        output.take()
        return Call(exit_code(status) if ended else None, time.monotonic() - started, bytes(output.kept))
    finally:
        for file in (inlet, outlet, feed, printing):
            if file >= 0:
                os.close(file)


def _spawn(command: str, environ: Mapping[str, str], stdin: int, output: int) -> int:
    streams = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, 1, 2)]
    reset = [number for number in RESET_SIGNALS if number not in IGNORED]
    words = ("bash", "-c", command)
    return os.posix_spawn(
        find_program("bash", environ), words, environ, file_actions=streams, setsigmask=(), setsigdef=reset, setsid=True
    )


class _Output:
    """What the command prints: its beginning is kept, and the rest is read so that nothing waits for a reader."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self.file = file
        self.kept = bytearray()
        self.is_open = True

    def take(self) -> None:
        """Take what has come."""
        for _ in range(64):  # a command that prints without end has a time limit, too
            try:
                data = os.read(self.file, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.is_open = False
                return
            self.kept += data[: MOST_PRINTED - len(self.kept)]


def _wait(pid: int, output: _Output, until: float) -> bool:
    """Wait for the process, which is not reaped: its group keeps its number. Return whether it has ended in time."""
    pause = _SHORTEST
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        left = until - time.monotonic()
        if left <= 0:
            return False
        pause = min(2 * pause, _LONGEST, left)
        if output.is_open:
            select.select([output.file], [], [], pause)
            output.take()
        else:
            time.sleep(pause)
    return True
