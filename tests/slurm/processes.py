"""Who lives in which PID namespace, as this machine's /proc tells it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple


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
        status = dict(line.split(":\t", 1) for line in _read(pid, "status").splitlines() if ":\t" in line)
        if status["State"][0] in "ZX":
            return None
        argv = tuple(_read(pid, "cmdline").split("\0")[:-1])
        space = os.readlink("/proc/%d/ns/pid" % pid)
    except OSError:
        return None
    return Process(pid, int(status["NSpid"].split()[-1]), space, status["Name"], argv)


def living() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        process = look(int(name)) if name.isdigit() else None
        if process is not None:
            yield process


def first_of_space(program: str, arguments: Sequence[str]) -> Process | None:
    """The process 1 that runs `python … program arguments…`; `program` is a file name, whatever checkout it is in."""
    for process in living():
        names = [os.path.basename(word) for word in process.argv[:5]]
        if process.inner == 1 and program in names:
            start = names.index(program) + 1
            if list(process.argv[start : start + len(arguments)]) == list(arguments):
                return process
    return None


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
