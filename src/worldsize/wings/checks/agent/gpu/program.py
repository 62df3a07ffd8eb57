"""Execute nvidia-smi: bounded in time and in what is read of it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.node_context import NodeContext

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

MOST_BYTES = 1 << 20
_LIBRARIES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_PLACES = (("usr", "bin", "nvidia-smi"), ("usr", "lib", "wsl", "lib", "nvidia-smi"))


class Output(NamedTuple):
    """What a program printed, on either of its streams, and its exit code: None where it did not end in time."""

    code: int | None
    text: str


def find_nvidia_smi(context: NodeContext) -> str | None:
    """The program by the ranks' PATH, else where drivers install it; None where it is missing. What a PATH finds in the
    working directory is passed over: that holds the job's files."""
    try:
        found = find_program("nvidia-smi", context.environ)
    except OSError:
        found = ""
    places = (found, *(context.path(*names) for names in _PLACES))
    return next((path for path in places if os.path.isabs(path) and os.access(path, os.X_OK)), None)


def execute(program: str, words: Sequence[str], environ: Mapping[str, str], limit: float) -> Output:
    """What the program prints within `limit` seconds, MOST_BYTES at most. It is killed when it takes longer.

    It stays in this process's group, so that whoever ends the group ends it too. OSError where it cannot be started.
    """
    import subprocess  # which takes longer to load than all else that a node without GPUs does for this

    process = subprocess.Popen(
        [program, *words],
        env={**environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=os.sep,
    )
    assert process.stdout is not None
    deadline = time.monotonic() + limit
    with process.stdout as stream:
        text, is_whole = _read_until(stream, deadline)
    return Output(_end(process, deadline if is_whole else 0.0), text.decode("utf-8", "replace"))


def environment_without_libraries(environ: Mapping[str, str]) -> dict[str, str] | None:
    """The same without the paths of libraries; None where it has none.

    A path to CUDA's stubs makes nvidia-smi load a library that only pretends to be the driver's.
    """
    if not any(name in environ for name in _LIBRARIES):
        return None
    return {name: value for name, value in environ.items() if name not in _LIBRARIES}


def _read_until(stream: Any, deadline: float) -> tuple[bytes, bool]:
    """What came, and whether the end of it was seen."""
    found = b""
    while len(found) < MOST_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([stream], [], [], left)[0]:
            return found, False
        part = os.read(stream.fileno(), 1 << 16)
        if not part:
            return found, True
        found += part
    return found[:MOST_BYTES], False


def _end(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    """Its exit code; None where it had to be killed. A process that hangs in the kernel is left behind."""
    import subprocess

    try:
        return process.wait(max(0.0, deadline - time.monotonic()) if deadline else 0.0)
    except subprocess.TimeoutExpired:
        process.kill()
    try:
        process.wait(0.5)
    except subprocess.TimeoutExpired:  # the driver holds it: it ends when the driver lets go
        pass
    return None
