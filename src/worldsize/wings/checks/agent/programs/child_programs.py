"""Programs that a measurement starts, with a limit on their time and on what is read of their output.

They stay in the process group of the node's program: who ends that ends them, too. Standard library only: travels
inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

OUTPUT_LIMIT = 1 << 20
"""Bytes that are read of what a program wrote."""

_GRACE = 3.0
"""Seconds that the others have once one has failed, and that a program has to end when it is told to."""
_POLL = 0.05


class Program(NamedTuple):
    """What to start: `output` is the file that gets its standard output and error."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    output: str


class Outcome(NamedTuple):
    """How programs ended: `codes` in their order, None for one that was ended; `failed`, the place of the first that
    ended with an error by itself; `late`, whether time was over."""

    codes: tuple[int | None, ...]
    failed: int | None = None
    late: bool = False


def run_programs(programs: Sequence[Program], seconds: float, now: Callable[[], float] = time.monotonic) -> Outcome:
    """Run all at the same time, and wait until all have ended, for at most `seconds`. When one fails, the others get
    three seconds. Each has a standard input that is open as long as this process wants it. Raises OSError where one
    cannot be started; none is left then."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for program in programs:
            running.append(_start(program))
        return _wait(running, now() + seconds, now)
    finally:
        _end(running)


def read_output(path: str, limit: int = OUTPUT_LIMIT) -> str:
    """The end of what a program wrote; "" where it wrote nothing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read(limit).decode("utf-8", "replace")
    except OSError:  # it was ended before it could write
        return ""


def last_words(text: str) -> str:
    """The last line of an output that says something, shortened; for Python the one that names the exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=*\t")]
    errors = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith("[")]
    return (errors or lines or [""])[-1][:300]


def _start(program: Program) -> subprocess.Popen[bytes]:
    with open(program.output, "wb") as output:
        return subprocess.Popen(  # nosec B603  # a list of words, without a shell
            list(program.argv),
            env=dict(program.environ),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=os.path.dirname(program.output),
        )


def _wait(running: Sequence[subprocess.Popen[bytes]], deadline: float, now: Callable[[], float]) -> Outcome:
    failed: int | None = None
    late = False
    while any(process.poll() is None for process in running):
        if now() >= deadline:
            late = failed is None
            break
        if failed is None and (failed := _first_failed(running)) is not None:
            deadline = min(deadline, now() + _GRACE)
        time.sleep(_POLL)
    codes = tuple(process.poll() for process in running)
    return Outcome(codes, _first_failed(running) if failed is None else failed, late)


def _first_failed(running: Sequence[subprocess.Popen[bytes]]) -> int | None:
    return next((place for place, process in enumerate(running) if process.poll()), None)


def _end(running: Sequence[subprocess.Popen[bytes]]) -> None:
    """End what still runs, and close its standard input, by which it would end without being told, too."""
    for process in running:
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
