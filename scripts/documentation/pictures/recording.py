"""Recordings of a terminal: what it shows while commands are typed and executed."""

from __future__ import annotations

import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from fcntl import ioctl
from typing import NamedTuple

import pyte

TYPING = 0.12
"""Seconds between two groups of typed letters."""
LETTERS = 3
"""Letters that are typed at once."""
READING = 2.5
"""Seconds that the end of a command's output stays before the next command is typed."""
PATIENCE = 120
"""Seconds after which a command that has not ended is an error."""

Run = tuple[str, str]
"""A text, and its style: words of "bold", "dim", "red", …, separated by blanks."""
Line = tuple[Run, ...]


class Frame(NamedTuple):
    """What a terminal shows from `time` on, in seconds since the start of the recording."""

    time: float
    lines: tuple[Line, ...]


def record(commands: Sequence[str], environ: Mapping[str, str], folder: str, size: tuple[int, int]) -> list[Frame]:
    """Execute the commands in `folder`, one after the other, by bash at a terminal with (columns, lines). Return what
    it shows. Raise TimeoutError for a command that does not end."""
    screen = pyte.Screen(*size)
    stream = pyte.Stream(screen)
    frames: list[Frame] = []
    now = 0.0

    def show(text: str) -> None:
        stream.feed(text)
        lines = tuple(map(_line, _rows(screen)))
        if not frames or frames[-1].lines != lines:
            frames.append(Frame(now, lines))

    for command in commands:
        show("$ ")
        for start in range(0, len(command), LETTERS):
            now += TYPING
            show(command[start : start + LETTERS])
        now += 3 * TYPING
        show("\r\n")
        begin = now
        for seconds, text in _output(command, environ, folder, size):
            now = begin + seconds
            show(text)
        now += READING
    return [*frames, Frame(now, frames[-1].lines)]


def _output(
    command: str, environ: Mapping[str, str], folder: str, size: tuple[int, int]
) -> Iterator[tuple[float, str]]:
    """Yield what the command prints, each with the seconds since its start."""
    start = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve("/bin/bash", ["bash", "-c", command], dict(environ))
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    try:
        while True:
            ready, _, _ = select.select([terminal], [], [], max(0, start + PATIENCE - time.monotonic()))
            if not ready:
                raise TimeoutError("%r has not ended after %d s" % (command, PATIENCE))
            try:
                data = os.read(terminal, 1 << 16)
            except OSError:  # the command has ended
                return
            yield time.monotonic() - start, data.decode(errors="replace")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _rows(screen: pyte.Screen) -> Iterator[Sequence[pyte.screens.Char]]:
    for number in range(screen.lines):
        row = screen.buffer[number]
        yield [row[column] for column in range(screen.columns)]


def _line(row: Sequence[pyte.screens.Char]) -> Line:
    """The line's runs of letters of one style, without blanks at its end."""
    runs: list[Run] = []
    for char in row:
        style = " ".join(
            [*(["bold"] if char.bold else []), *([char.fg] if char.fg != "default" else [])]
            + (["reverse"] if char.reverse else [])
        )
        if runs and runs[-1][1] == style:
            runs[-1] = (runs[-1][0] + char.data, style)
        else:
            runs.append((char.data, style))
    while runs and not runs[-1][0].rstrip():
        runs.pop()
    if runs:
        runs[-1] = (runs[-1][0].rstrip(), runs[-1][1])
    return tuple(runs)
