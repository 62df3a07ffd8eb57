"""The remains of a self-test: jobs of a compute that have not ended, and processes on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from worldsize.common.atomic_files import read_file, read_if_possible
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.compute.base import Compute, Handle
from worldsize.errors import WorldsizeError

_OVER = ("ended", "absent")
_FILES = ("handle.json", "handles.json")
_INTERVAL = 0.5
_HOST = re.compile(r'"host(?:name)?": ?"([^"]+)"')
_MOST = 1_000_000


def handles_below(directory: str) -> list[Handle]:
    """Return the jobs' handles that clients have recorded in all run directories below `directory`, each once. Files
    that cannot be read are skipped: a test may damage files on purpose."""
    found: dict[str, Handle] = {}
    for folder, _, names in os.walk(directory):
        for name in set(_FILES) & set(names):
            for handle in _read(os.path.join(folder, name)):
                found.setdefault(json.dumps(handle, sort_keys=True), handle)
    return list(found.values())


def _read(path: str) -> list[Any]:
    try:
        value = json.loads(read_file(path))
    except (OSError, *PARSE_ERRORS):  # damaged on purpose, or gone with its run
        return []
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]


def hosts_below(directory: str) -> set[str]:
    """Return the host names that nodes have recorded in their files in all run directories below `directory`, as a
    set."""
    found: set[str] = set()
    for folder, _, names in os.walk(directory):
        for name in names:
            if name.startswith("node-") and name.endswith((".json", ".jsonl")):
                found |= _hosts_of(os.path.join(folder, name))
    return found


def _hosts_of(path: str) -> set[str]:
    return set(_HOST.findall(read_if_possible(path, _MOST).decode("utf-8", "replace")))


def end_jobs(
    compute: Compute,
    handles: Sequence[Handle],
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Handle]:
    """Cancel those jobs of `handles` that have not ended, without grace. Return the handles of those that have not
    ended after `patience` seconds. If the compute does not answer until then, all jobs count as not ended."""
    deadline = clock() + patience
    left, asked = list(handles), False
    while left:
        try:
            left = _unfinished(compute, left)
            if left and not asked:
                compute.cancel(left, True)
                asked = True
        except WorldsizeError:
            pass  # the controller is busy or unreachable: retried until `patience` is over
        if not left or clock() >= deadline:
            break
        sleep(_INTERVAL)
    return left


def _unfinished(compute: Compute, handles: Sequence[Handle]) -> list[Handle]:
    seen = compute.observe(handles)
    return [handle for handle, each in zip(handles, seen, strict=True) if each.phase not in _OVER or each.ending]


def processes_below(directory: str, proc: str = "/proc") -> list[int]:
    """Return the ids of this user's processes whose WORLDSIZE_HOME is below `directory`, except this process."""
    mark = b"\0WORLDSIZE_HOME=" + os.fsencode(directory) + b"/"
    return [pid for pid in _pids(proc) if pid != os.getpid() and mark in b"\0" + _environ_of(proc, pid)]


def _pids(proc: str) -> Iterator[int]:
    return (int(name) for name in os.listdir(proc) if name.isdigit())


def _environ_of(proc: str, pid: int) -> bytes:
    try:
        with open(os.path.join(proc, str(pid), "environ"), "rb") as file:
            return file.read()
    except OSError:  # another user's, or gone
        return b""


def end_processes(
    directory: str,
    patience: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[int]:
    """Kill this user's processes whose WORLDSIZE_HOME is below `directory`, including those that they start meanwhile.
    Return the ids of those that remain after `patience` seconds."""
    deadline = clock() + patience
    while left := processes_below(directory):
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended meanwhile
        if clock() >= deadline:
            break
        sleep(_INTERVAL / 5)
    return left
