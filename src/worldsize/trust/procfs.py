"""Control of what /proc shows of this process: its arguments to all users, its variables to this user and to the
processes that it starts.

A forked process shows the arguments and variables with which its ancestor was started, even long after that has ended.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_ARG_START, _ARG_END, _ENV_START, _ENV_END = 45, 46, 47, 48
"""Indices of the fields in /proc/PID/stat, counted after the program's name. proc(5) counts them from 48."""


PASSWORD_VARIABLE = "WORLDSIZE_HPCPACK_PASSWORD"
"""The variable with the password of an account on a cluster, for worldsize's own process only."""


_withheld: dict[str, str] = {}


def withhold_password() -> None:
    """Remove the variable with the cluster account's password, WORLDSIZE_HPCPACK_PASSWORD, from this process's
    environment, which all programs that it starts would inherit, and remember its value."""
    if PASSWORD_VARIABLE in os.environ:
        _withheld[PASSWORD_VARIABLE] = os.environ[PASSWORD_VARIABLE]
        withdraw_variables([PASSWORD_VARIABLE])


def withheld_password(environ: Mapping[str, str]) -> str | None:
    """Return the password of the cluster account from WORLDSIZE_HPCPACK_PASSWORD in `environ`, or the value that
    `withhold_password` removed; None if there is none."""
    return environ.get(PASSWORD_VARIABLE) or _withheld.get(PASSWORD_VARIABLE)


def with_password(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` with the cluster account's password that `withhold_password` removed, for a shell of the user,
    in which worldsize may be called again."""
    return {**environ, **_withheld}


def withheld_variables(names: Collection[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the environment variables that only the ranks of a run may have: `names`, and that of the
    cluster account's password if it is set in `environ`."""
    return (*names, PASSWORD_VARIABLE) if PASSWORD_VARIABLE in environ else tuple(names)


def without_variables(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


def withdraw_variables(names: Collection[str]) -> None:
    """Remove the environment variables `names` from this process's environment, and blank their values in /proc. A
    failure to blank them is ignored."""
    for name in names:
        os.environ.pop(name, None)
    if names:
        try:
            _blank_variables([os.fsencode(name) + b"=" for name in names])
        except (OSError, ValueError, IndexError):
            pass


def set_process_title(title: str) -> None:
    """Show `title`, cut to the available room, as the command line of this process in /proc, in place of the arguments
    with which it, or the process it was forked from, was started. A failure is ignored."""
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
