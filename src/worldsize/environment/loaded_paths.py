"""What ranks execute or load by a name of the machine that submits: on another machine that name may lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_SEPARATORS = {
    "PATH": ":",
    "PYTHONPATH": ":",
    "PYTHONHOME": ":",
    "PYTHONUSERBASE": "",
    "PYTHONSTARTUP": "",
    "LD_LIBRARY_PATH": ":;",
    "LD_PRELOAD": ": \t\n",
    "LD_AUDIT": ":",
    "BASH_ENV": "",
    "ENV": "",
}
"""The variables that are looked at, and what stands between two paths in each."""


def paths_in_variables(variables: Mapping[str, str | None]) -> tuple[str, ...]:
    """The directories and files in the values of variables that decide what is executed."""
    found: list[str] = []
    for name, separators in _SEPARATORS.items():
        parts = [variables.get(name) or ""]
        for separator in separators:
            parts = [part for each in parts for part in each.split(separator)]
        found += with_interpreters(parts) if name == "PATH" else parts
    return _absolute_paths(found)


def with_interpreters(directories: Iterable[str]) -> tuple[str, ...]:
    """These directories, and the `python` in each of them, which may be a link to anywhere."""
    found = []
    for directory in _absolute_paths(directories):
        python = os.path.join(directory, "python")
        found += [directory, python] if os.path.lexists(python) else [directory]
    return tuple(found)


def _absolute_paths(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in paths if os.path.isabs(each))
