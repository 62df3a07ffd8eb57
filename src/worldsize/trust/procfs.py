"""What /proc shows of this process: its words to everybody, its variables to this user and to what it starts.

A forked process shows what the one was started with that it comes from, however long that has ended.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48
"""Of the words of /proc/PID/stat that come after the program's name: proc(5) counts these from 48."""


PASSWORD_VARIABLE = "WORLDSIZE_HPCPACK_PASSWORD"
"""Of an account on a cluster: for worldsize's own process alone."""


_withheld: dict[str, str] = {}


def withhold_password() -> None:
    """Takes the password's variable out of this process's environment, which all programs that it starts would
    inherit."""
    if PASSWORD_VARIABLE in os.environ:
        _withheld[PASSWORD_VARIABLE] = os.environ[PASSWORD_VARIABLE]
        withdraw_variables([PASSWORD_VARIABLE])


def withheld_password(environ: Mapping[str, str]) -> str | None:
    """What the variable holds, or held before `withhold_password`."""
    return environ.get(PASSWORD_VARIABLE) or _withheld.get(PASSWORD_VARIABLE)


def with_password(environ: Mapping[str, str]) -> dict[str, str]:
    """For a shell of the user's own, where worldsize may be called again."""
    return {**environ, **_withheld}


def withheld_variables(names: Collection[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that no process of a run but its ranks is to have: these, and an account's password."""
    return (*names, PASSWORD_VARIABLE) if PASSWORD_VARIABLE in environ else tuple(names)


def without_variables(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


def withdraw_variables(names: Collection[str]) -> None:
    """Takes these variables out of this process's environment, and out of what is shown of it. What cannot be written
    stays as it is."""
    for name in names:
        os.environ.pop(name, None)
    if names:
        try:
            _blank_variables([os.fsencode(name) + b"=" for name in names])
        except (OSError, ValueError, IndexError):
            pass


def set_process_title(title: str) -> None:
    """Shows `title`, or as much of it as there is room for, in place of the words that this process, or the one that it
    was forked from, was started with. What cannot be written stays as it is."""
    try:
        start, end = _bounds(_ARG_START, _ARG_END)
        with _memory() as memory:
            memory.seek(start)
            memory.write(os.fsencode(title)[: end - start - 1].ljust(end - start, b"\0"))
    except (OSError, ValueError, IndexError):
        pass


def _blank_variables(beginnings: Collection[bytes]) -> None:
    start, end = _bounds(_ENV_START, _ENV_END)
    with _memory() as memory:
        memory.seek(start)
        block = memory.read(end - start) or b""
        at = 0
        for entry in block.split(b"\0"):
            for beginning in beginnings:
                if entry.startswith(beginning):
                    memory.seek(start + at + len(beginning))
                    memory.write(bytes(len(entry) - len(beginning)))
            at += len(entry) + 1


def _bounds(start: int, end: int) -> tuple[int, int]:
    with open("/proc/self/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
    return int(words[start]), int(words[end])


def _memory() -> BinaryIO:
    return open("/proc/self/mem", "r+b", buffering=0)
