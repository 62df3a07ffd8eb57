"""The state that the parts of one rank share: its rank, its connections, its current batch and its counters."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Callable, Mapping, NamedTuple

from .process_group import Communicator


class ScriptRefused(RuntimeError):
    """The error for a script, or a step of it, that cannot become one correct data-parallel training."""


class BatchSizes(NamedTuple):
    """The sizes of a batch: `local` samples on this rank of `total` over all ranks. If `sliced` is false, every rank
    has all of them."""

    sliced: bool
    local: int
    total: int


NO_BATCH = BatchSizes(False, 0, 0)


class Training:
    """The part of one rank in the training. `active` becomes false if the script distributes itself, and in forked
    children.

    `loaded` is true once a loader has returned a batch for any purpose. `batch` is the batch that the script is working
    on. `asked` is the batch of the script's latest numbers, which remains after the end of its loop.
    """

    def __init__(self, mode: str, environ: Mapping[str, str]) -> None:
        self.mode = mode
        self.rank = int(environ["WORLDSIZE_RANK"])
        self.size = int(environ["WORLDSIZE_WORLD_SIZE"])
        self.world = Communicator(self.rank, self.size)
        self.run_id = environ.get("WORLDSIZE_RUN_ID", "")
        self.run_dir = environ.get("WORLDSIZE_RUN_DIR", "")
        self.attempt = environ.get("WORLDSIZE_ATTEMPT", "0")
        self.active = True
        self.used = False
        self.loaded = False
        self.batch = NO_BATCH
        self.asked = NO_BATCH
        self.backwards = 0
        self.steps = 0
        self.samples = 0
        self.counts = {"sliced": 0, "whole": 0, "shards": 0}
        self.cropped = ""
        """The place in the script that drew a batch itself which was shared out; empty before that."""
        self.said: set[str] = set()

    def stop(self) -> None:
        self.active = False

    def divide(self, total: int) -> BatchSizes:
        """Return how a batch of `total` samples is divided among the ranks (a BatchSizes). A batch whose size the
        number of ranks does not divide goes whole to every rank."""
        sliced = total % self.size == 0
        return BatchSizes(sliced, total // self.size if sliced else total, total)

    def show_notice(self, text: str) -> None:
        """Print a notice of the data-parallel training to stderr, once and on rank 0 only, and append it to the run's
        file of notices."""
        if text not in self.said:
            self.said.add(text)
            if self.rank == 0:
                sys.stderr.write(f"worldsize: data parallel: {text}\n")
                sys.stderr.flush()
                self._record_notice(text)

    def _record_notice(self, text: str) -> None:
        """Append the notice `text`, with the line of the script that led to it, to the attempt's `notices.jsonl`. Do
        nothing if the file cannot be written."""
        if not self.run_dir:
            return
        frame = user_frame()
        place = {"file": frame.f_code.co_filename, "line": frame.f_lineno} if frame is not None else {}
        line = json.dumps({"id": "data-parallel", "text": "data parallel: " + text, **place}) + "\n"
        path = os.path.join(self.run_dir, "attempt-" + self.attempt, "notices.jsonl")
        try:
            mode = os.stat(os.path.dirname(path)).st_mode & 0o666
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)
        except OSError:
            pass


def refusal(what: str, hint: str) -> ScriptRefused:
    """Return the ScriptRefused error with the problem `what`, the hint and the line of the user's script that led to
    this call."""
    return ScriptRefused(f"{user_place()}: {what}\n  -> {hint}")


def user_place() -> str:
    """Return `FILE:LINE` of the user's script that led to this call. "the script" if there is none."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "the script"


def user_frame() -> Any:
    """Return the innermost stack frame of the user's own code. None at the interpreter's end."""
    return nearest_user_frame(sys._getframe())


def nearest_user_frame(frame: Any) -> Any:
    """Return the first stack frame that runs the user's own code, from `frame` outward through its callers. None if
    there is none."""
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=None)
def is_user_code(filename: str) -> bool:
    """Return whether a file is the user's own code, and not that of this package, an installed library or Python."""
    if filename.startswith("<") and filename != "<string>":
        return False
    here = os.path.dirname(os.path.abspath(__file__))
    python = os.path.dirname(os.path.abspath(os.__file__))
    path = os.path.abspath(filename)
    parts = path.split(os.sep)
    return not (
        path.startswith((here + os.sep, python + os.sep)) or "site-packages" in parts or "dist-packages" in parts
    )


def replace(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace `owner.name` with a function of the same name and documentation, which calls `around` with the original
    and with its own arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*values: Any, **keywords: Any) -> Any:
        return around(original, *values, **keywords)

    setattr(owner, name, patched)
