"""What ranks execute or load by a name of the machine that submits: on another machine that name may lead elsewhere.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

_SEARCHED = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "BASH_ENV", "ENV")


def searched(variables: Mapping[str, str | None]) -> tuple[str, ...]:
    """The directories and files in the values of variables that decide what is executed."""
    return _absolute(part for name in _SEARCHED for part in (variables.get(name) or "").split(os.pathsep))


def with_interpreters(directories: Iterable[str]) -> tuple[str, ...]:
    """These directories, and the `python` in each of them, which may be a link to anywhere."""
    found = []
    for directory in _absolute(directories):
        found += [directory, os.path.join(directory, "python")]
    return tuple(each for each in found if os.path.basename(each) != "python" or os.path.lexists(each))


def _absolute(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(each for each in paths if os.path.isabs(each))
