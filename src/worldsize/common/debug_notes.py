"""Notes about worldsize's decisions and about the programs that it starts, for users who request them (`-v`).

They are off unless `begin_notes` is called; a note then costs nothing. Notes come only from this process: its forks are
silent.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident  # threading, which exports it, takes a millisecond to import
from collections.abc import Callable

from worldsize.common.named_tuple import Any

_began = 0.0
_process = 0
_starting: set[int] = set()
"""The threads that are starting a program by `subprocess`, which may itself use posix_spawn."""

_write: Callable[[str], None] | None = None


def note_decision(text: str) -> None:
    """Write a note for `-v` about a decision or an event of worldsize, with secrets masked, if notes are on in this
    process."""
    if _write is None or os.getpid() != _process:
        return
    from worldsize.trust.secrets import mask_text

    _write(f"[{time.monotonic() - _began:8.3f} s] {mask_text(text)}")


def is_noting() -> bool:
    """Return whether the notes for `-v` are written at all. Check this before a note is made that takes time."""
    return _write is not None


def begin_notes(write: Callable[[str], None], began: float) -> None:
    """Pass all notes for `-v` to `write` from now on, with the seconds since `began` on the monotonic clock. Write a
    note also for each program that this process starts, and for those of `subprocess` the exit code and seconds."""
    global _began, _process, _write
    _began, _process, _write = began, os.getpid(), write
    sys.addaudithook(_note_program)
    import subprocess

    class NotedPopen(subprocess.Popen):  # type: ignore[type-arg]
        """A Popen that writes a note when the program has ended, regardless of the code that waits for it."""

        def __init__(self, args: Any, *more: Any, **given: Any) -> None:
            self._started = time.monotonic()
            self._words = _command_text(args)
            self._code: int | None = None
            _starting.add(get_ident())
            try:
                super().__init__(args, *more, **given)
            finally:
                _starting.discard(get_ident())

        @property
        def returncode(self) -> int | None:
            return self._code

        @returncode.setter
        def returncode(self, code: int | None) -> None:
            if code is not None and self._code is None:
                note_decision(f"code {code} after {time.monotonic() - self._started:.3f} s: {self._words}")
            self._code = code

    subprocess.Popen = NotedPopen  # type: ignore[misc]


def _note_program(event: str, values: tuple[Any, ...]) -> None:
    """Write a note for `-v` when this process starts a program. This is an audit hook of Python: it is called for
    everything that opens a file or starts a program."""
    if event == "subprocess.Popen" and os.getpid() == _process:
        note_decision(f"starts {_command_text(values[1])}")
    elif event == "os.posix_spawn" and os.getpid() == _process and get_ident() not in _starting:
        note_decision(f"starts {_command_text(values[1])} in the background")


def _command_text(words: Any) -> str:
    """Return the command `words`, one word or several, as a command line quoted for a shell, with its secrets
    masked."""
    import shlex

    from worldsize.trust.secrets import mask_argv

    if isinstance(words, (str, bytes, os.PathLike)):
        words = [words]
    return " ".join(map(shlex.quote, mask_argv([os.fsdecode(word) for word in words])))
