"""Runner for a program of a check, with a limit on its output in bytes and on its time in seconds.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from worldsize.agent.posix.processes import end_with_parent, signal_group
from worldsize.common.named_tuple import NamedTuple

_CHUNK = 65536
_MOST_CHUNKS = 64
"""The number of chunks after which the clock is read again. The pipe of a program that prints without end is never
empty."""

_PAUSE = 20
"""Milliseconds to wait for output or for the end of the program."""

_GRACE = 2.0
"""Seconds that a program has to end after its lifeline is closed, and seconds to wait for a program that was killed."""


class ProgramEnd(NamedTuple):
    """The result of a program that was run.

    code    the exit code, as in subprocess: -N for signal N; None if the program was late and was killed
    output  the output of the program and its children, with stderr; if it is too long, its end
    """

    code: int | None
    output: str


def run_program(
    argv: Sequence[str],
    environ: Mapping[str, str],
    directory: str,
    limit: float,
    most: int = 1 << 20,
    clock: Callable[[], float] = time.monotonic,
    lifeline: bool = False,
) -> ProgramEnd:
    """Start a program by its path in its own process group, and wait at most `limit` seconds for its end. Return a
    ProgramEnd with its exit code and the last `most` bytes of its output. No process of the group is left, except those
    that hang in the kernel. Raise OSError if the program cannot be started.

    Without `lifeline`, the program's standard input is empty, and the program is killed when the calling thread ends.
    With `lifeline`, its standard input stays open until the program ends or is late; the program then has two seconds
    to end.

    A child that the program leaves behind may keep its output open. For this reason, the end of the program counts, not
    the end of its output.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE if lifeline else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        env=dict(environ),
        start_new_session=True,
        preexec_fn=None if lifeline else partial(end_with_parent, signal.SIGKILL),
    )
    assert process.stdout is not None
    try:
        is_over, output = _read_until_end(process.pid, process.stdout.fileno(), clock() + limit, most, clock)
    finally:
        if process.stdin is not None:
            process.stdin.close()
            _wait_for_end(process.pid, clock() + _GRACE, clock)
        signal_group(process.pid, signal.SIGKILL)  # before the leader is reaped, so that the group is still its own
        code = killed_code(process)
        process.stdout.close()
    return ProgramEnd(code if is_over else None, output.decode("utf-8", "replace"))


def killed_code(process: subprocess.Popen[bytes]) -> int | None:
    """Reap a process that was sent SIGKILL, and return its exit code. None if it has not ended after two seconds
    because it hangs in the kernel, where a file server or a driver blocks it. It ends when they release it."""
    try:
        return process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return None


def _wait_for_end(pid: int, deadline: float, clock: Callable[[], float]) -> None:
    while not _has_ended(pid) and clock() < deadline:
        time.sleep(_PAUSE / 1000)


def _read_until_end(
    pid: int, output: int, deadline: float, most: int, clock: Callable[[], float]
) -> tuple[bool, bytes]:
    """Read the program's output from the descriptor `output` until the process `pid` ends or the deadline passes.
    Return whether the program has ended, and the last `most` bytes of its output."""
    kept, is_over, is_open = b"", False, True
    while not is_over and clock() < deadline:
        is_over = _has_ended(pid)  # before reading, so that all of its output is then in the pipe
        if is_open:
            kept, is_open = _read_available(output, kept, most, 0 if is_over else _PAUSE)
        elif not is_over:
            time.sleep(_PAUSE / 1000)
    return is_over, kept


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read_available(output: int, kept: bytes, most: int, milliseconds: int) -> tuple[bytes, bool]:
    """Read the output that arrives on the descriptor `output` within `milliseconds`. Return two values: `kept` with the
    new bytes appended, cut to the last `most` bytes, and whether more output may come."""
    waiting = select.poll()
    waiting.register(output, select.POLLIN)
    for _ in range(_MOST_CHUNKS):
        if not waiting.poll(milliseconds):
            return kept, True
        chunk = os.read(output, _CHUNK)
        if not chunk:
            return kept, False
        kept, milliseconds = (kept + chunk)[-most:], 0
    return kept, True
