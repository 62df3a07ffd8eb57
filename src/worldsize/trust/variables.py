"""Variables that a process was given and that those it starts are not to have.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

_ENV_START, _ENV_END = 47, 48
"""Of the words of /proc/PID/stat that come after the program's name: proc(5) counts these from 50 and 51."""


def without(environ: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in names}


def withdraw(names: Collection[str]) -> None:
    """Takes them out of this process's environment, and out of what the kernel shows of it (/proc/PID/environ), which
    is what the process, or the one that it was forked from, was started with. Where that cannot be written it stays."""
    for name in names:
        os.environ.pop(name, None)
    if names:
        try:
            _blank([os.fsencode(name) + b"=" for name in names])
        except (OSError, ValueError, IndexError):
            pass


def _blank(beginnings: Collection[bytes]) -> None:
    with open("/proc/self/stat", "rb") as file:
        words = file.read().rpartition(b")")[2].split()
    start, end = int(words[_ENV_START]), int(words[_ENV_END])
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        block = memory.read(end - start) or b""
        at = 0
        for entry in block.split(b"\0"):
            for beginning in beginnings:
                if entry.startswith(beginning):
                    memory.seek(start + at + len(beginning))
                    memory.write(bytes(len(entry) - len(beginning)))
            at += len(entry) + 1
