"""What the parts of one rank share: its rank, its connections, the batch that it is working on, what it counts."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any, Callable, Mapping, NamedTuple

from .process_group import Communicator


class ScriptRefused(RuntimeError):
    """This script, or this step of it, cannot be made one correct data-parallel training."""


class BatchSizes(NamedTuple):
    """The sizes of a batch: `local` samples of `total` over all ranks; not `sliced`: every rank has all of them."""

    sliced: bool
    local: int
    total: int


NO_BATCH = BatchSizes(False, 0, 0)


class Training:
    """One rank's part in the training. `active` goes false where the script distributes itself, and in forked children.

    `loaded`: a loader has given a batch, whatever for. `batch` is what the script is working on, `asked` what its
    latest numbers are of: that outlives its loop.
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
        """Where the script has drawn a batch itself that was shared out."""
        self.said: set[str] = set()

    def stop(self) -> None:
        self.active = False

    def divide(self, total: int) -> BatchSizes:
        """Return the sizes of a batch of `total` samples; one that the number of ranks does not divide goes whole to
        all of them."""
        sliced = total % self.size == 0
        return BatchSizes(sliced, total // self.size if sliced else total, total)

    def show_notice(self, text: str) -> None:
        """Print a notice, once, on rank 0 alone."""
        if text not in self.said:
            self.said.add(text)
            if self.rank == 0:
                sys.stderr.write(f"worldsize: data parallel: {text}\n")
                sys.stderr.flush()
                self._record_notice(text)

    def _record_notice(self, text: str) -> None:
        """Write a notice down for who looks at the run, with the line of the script; nothing where it cannot be."""
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
    """Return the error to raise, with the line of the user's script that led here."""
    return ScriptRefused(f"{user_place()}: {what}\n  -> {hint}")


def user_place() -> str:
    """Return the file and the line of the user's script that led here."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "the script"


def user_frame() -> Any:
    """Return the innermost frame that is the user's own code; None at the interpreter's end."""
    return nearest_user_frame(sys._getframe())


def nearest_user_frame(frame: Any) -> Any:
    """`frame` itself, or the nearest of those that led to it that is the user's own code; None for none."""
    while frame is not None and not is_user_code(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=None)
def is_user_code(filename: str) -> bool:
    """Return whether a file is the user's own code, and not this package's, an installed library's or Python's."""
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
    """Replace `owner.name` by a function of the same name and documentation, which calls `around` with the original and
    with its own arguments."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*values: Any, **keywords: Any) -> Any:
        return around(original, *values, **keywords)

    setattr(owner, name, patched)
