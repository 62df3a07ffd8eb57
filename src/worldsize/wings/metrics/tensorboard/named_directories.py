"""Directories outside a run that its command or its variables name, where a script may write event files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

from worldsize.common.atomic_files import read_object
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths

_MOST = 8
_MOST_TEXT = 1 << 16
_PATH = re.compile(r"(?:^|[\s=:'\"])(/[^\s'\":;|&<>]{2,1000})")
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr"))
_CLOCK_SLACK = 60.0


def named_directories(paths: RunPaths, root: str) -> list[str]:
    """Return the existing directories outside the run that the words of its command, or its variables, name by an
    absolute path; at most eight, none inside the run (`root`) and none of the system."""
    found: list[str] = []
    for text in _texts(read_object(paths.plan)):
        for path in _PATH.findall(text):
            local = os.path.normpath(path)
            if local in found or not _may_be_logs(local, root) or not os.path.isdir(local):
                continue
            found.append(local)
            if len(found) >= _MOST:
                return found
    return found


def run_span(paths: RunPaths) -> tuple[float, float]:
    """Return the time when the run was created and the time when it ended (the present if it has not), in Unix seconds.
    The span is wider by a minute at each end, because the clocks of nodes may differ."""
    summary = read_object(paths.result).get("summary")
    begin = _time_of(read_object(paths.plan).get("created"))
    return begin - _CLOCK_SLACK, _time_of(summary.get("ended") if isinstance(summary, dict) else None) + _CLOCK_SLACK


def _time_of(value: Any) -> float:
    """Return a value of a run's record as a time in Unix seconds; the present time if it is no number."""
    return float(value) if is_number(value) else time.time()


def _texts(plan: Any) -> Iterator[str]:
    """Yield the words of the command in a run's plan, and the values of the job's variables, up to 64 KiB of text."""
    argv, environment = plan.get("argv"), plan.get("environment")
    left = _MOST_TEXT
    for value in (*_values(argv), *_values(environment)):
        if isinstance(value, str) and len(value) <= left:
            left -= len(value)
            yield value


def _values(found: Any) -> list[Any]:
    if isinstance(found, dict):
        return list(found.values())
    return found if isinstance(found, list) else []


def _may_be_logs(path: str, root: str) -> bool:
    inside = path == root or path.startswith(root + "/") or root.startswith(path + "/")
    return not inside and path.count("/") > 1 and path.split("/")[1] not in _SYSTEM
