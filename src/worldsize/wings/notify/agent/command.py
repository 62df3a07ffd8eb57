"""A call of the command of `notify`, with a time limit and a bound on its output. It leaves no processes behind.

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
"""The most seconds that the command may take."""

MOST_PRINTED = 1 << 16
"""The most bytes of the output of a call that are kept."""

IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Signals that a scheduler or a terminal sends to all processes of a run that ends. They are ignored, because the
command has to report that end."""

_SHORTEST, _LONGEST = 0.002, 0.05
"""Seconds between two checks of whether the command has ended, at least and at most."""


class Call(NamedTuple):
    """The result of one execution of the command of `notify`. `code` is the exit code, None if the command was
    terminated after its time limit. `printed` is the kept part of its output."""

    code: int | None
    seconds: float
    printed: bytes


def call_command(command: str, text: str, environ: Mapping[str, str], limit: float = LIMIT) -> Call:
    """Execute the command of `notify` with bash, in the current directory, with the message `text` on its standard
    input, and return its exit code, duration and output. Wait until it has ended, or terminate it after `limit`
    seconds. Its whole process group is killed afterwards. Raise OSError if there is no bash."""
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
    """The output of the command. Its beginning is kept, and the rest is read and dropped, so that the command never
    blocks."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self.file = file
        self.kept = bytearray()
        self.is_open = True

    def take(self) -> None:
        """Read the output of the command that is available, and keep its first 64 KiB."""
        for _ in range(64):  # bounded: the time limit applies to a command that prints without end, too
            try:
                data = os.read(self.file, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.is_open = False
                return
            self.kept += data[: MOST_PRINTED - len(self.kept)]


def _wait(pid: int, output: _Output, until: float) -> bool:
    """Wait for the process `pid` of the command, and return whether it has ended before the time `until`. Its output is
    read meanwhile. The process is not reaped, so that its group keeps its number."""
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
