"""Who lives in which PID namespace, as this machine's /proc tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

BOOTED = "booted"
"""The name that process 1 of a node gives itself once it has booted."""


class Process(NamedTuple):
    """pid as seen from here; `inner` as seen in its own PID namespace; `space` names that namespace."""

    pid: int
    inner: int
    space: str
    name: str
    argv: tuple[str, ...]


def _read(pid: int, name: str) -> str:
    with open("/proc/%d/%s" % (pid, name), encoding="utf-8", errors="replace") as file:
        return file.read()


def look(pid: int) -> Process | None:
    """A living process; None for one that is gone, or dead and only not yet waited for."""
    try:
        status = _read(pid, "status")
        if _field(status, "State")[0] in "ZX":
            return None
        argv = tuple(_read(pid, "cmdline").split("\0")[:-1])
        space = _space(pid)
    except OSError:
        return None
    return Process(pid, int(_field(status, "NSpid").split()[-1]), space, _field(status, "Name"), argv)


def _field(status: str, name: str) -> str:
    return ("\n" + status).partition("\n%s:\t" % name)[2].partition("\n")[0]


def _space(pid: int) -> str:
    return os.readlink("/proc/%d/ns/pid" % pid)


def numbers() -> list[int]:
    """Of all processes that this machine's /proc knows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def living() -> Iterator[Process]:
    for pid in numbers():
        process = look(pid)
        if process is not None:
            yield process


def living_in(space: str) -> Iterator[Process]:
    """Those of one PID namespace; of all others no more than their namespace is looked at."""
    for pid in numbers():
        try:
            process = look(pid) if _space(pid) == space else None
        except OSError:
            continue
        if process is not None and process.space == space:
            yield process


_found: dict[tuple[str, ...], int] = {}
"""Where `first_of_space` has found each: looked at first, and believed only as far as /proc still says so."""


def first_of_space(program: str, arguments: Sequence[str]) -> Process | None:
    """The process 1 that runs `python … program arguments…`; `program` is a file name, whatever checkout it is in."""
    wanted = (program, *arguments)
    if wanted in _found:
        process = _is_first(_found[wanted], program, arguments)
        if process is not None:
            return process
        del _found[wanted]
    for pid in numbers():
        process = _is_first(pid, program, arguments)
        if process is not None:
            _found[wanted] = pid
            return process
    return None


def _is_first(pid: int, program: str, arguments: Sequence[str]) -> Process | None:
    """This process, if it is the process 1 that is meant."""
    try:
        argv = _read(pid, "cmdline").split("\0")
    except OSError:
        return None
    names = [os.path.basename(word) for word in argv[:5]]
    if program not in names:
        return None
    start = names.index(program) + 1
    process = look(pid) if argv[start : start + len(arguments)] == list(arguments) else None
    return process if process is not None and process.inner == 1 else None


def words(pid: int) -> str:
    """Its command line; empty for a process that is gone or dead."""
    try:
        return _read(pid, "cmdline").rstrip("\0").replace("\0", " ")
    except OSError:
        return ""


def start_time(pid: int) -> str:
    """Tells a process from a later one with the same number; empty if there is none."""
    try:
        return _read(pid, "stat").rpartition(")")[2].split()[19]
    except OSError:
        return ""


ALL = ("--mount", "--uts", "--ipc", "--net", "--pid")


def enter(pid: int, *only: str) -> list[str]:
    """The command that runs what follows it in the namespaces of `pid`."""
    return ["nsenter", "--target", str(pid), *(only or ALL), "--"]
