"""A program that is started for a check, with what it prints, up to a number of bytes and seconds.

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
"""After so many, the clock is looked at again: what prints without end never leaves the pipe empty."""

_PAUSE = 20
"""Milliseconds."""

_GRACE = 2.0
"""Seconds that a program has to end at the end of its lifeline, and that one which was killed is waited for."""


class ProgramEnd(NamedTuple):
    """code    as subprocess has it: -N for signal N; None for a program that was not over in time, and was killed
    output  what it and its children have printed, stderr too; of too much, the end
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
    """Start a program by its path, in a process group of its own, and wait for its end `limit` seconds at most. Nothing
    of the group is left, but what hangs in the kernel. Raises OSError where it cannot be started.

    Its standard input is empty, and it ends with the thread that calls this: only this one may be there. Else it has a
    `lifeline`, a standard input that is open until it is late; then it has two seconds to end.

    A child that the program leaves behind may hold its output open, so the program's end counts and not the output's.
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
    """Return the exit code of a process that was sent SIGKILL; None where it hangs in the kernel: a file server or a
    driver holds it, and it ends when that lets go."""
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
    """Return whether the program has ended before the deadline, and the last `most` bytes of its output."""
    kept, is_over, is_open = b"", False, True
    while not is_over and clock() < deadline:
        is_over = _has_ended(pid)  # before reading: what it has printed is then in the pipe
        if is_open:
            kept, is_open = _read_available(output, kept, most, 0 if is_over else _PAUSE)
        elif not is_over:
            time.sleep(_PAUSE / 1000)
    return is_over, kept


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read_available(output: int, kept: bytes, most: int, milliseconds: int) -> tuple[bytes, bool]:
    """`kept` with what comes within this time, and whether more may come."""
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
