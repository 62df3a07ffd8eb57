"""Parts of worldsize that other packages bring: computes, launchers, distributions, by the entry points of a group.

Looking for them takes longer than a whole short run, so only a name that worldsize itself does not know is looked up.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from worldsize.errors import ConfigError, WorldsizeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any, TypeVar

    Made = TypeVar("Made")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def entry_point_names(group: str) -> tuple[str, ...]:
    """The names that installed packages give to what they bring, each once."""
    return tuple(dict.fromkeys(point.name for point in _entry_points(group, tuple(sys.path))))


def load_entry_point(
    group: str,
    name: str,
    what: str,
    needed: Sequence[str] = (),
    error: type[WorldsizeError] = ConfigError,
    where: str | None = None,
) -> Any:
    """The object that a package brings under this name, which is called `what` in messages; None where no package does.

    Raises `error`, one sentence that names the packages, where two bring the name, or where the one's object cannot be
    loaded, whatever it raises, or lacks an attribute that is `needed`.
    """
    found = [point for point in _entry_points(group, tuple(sys.path)) if point.name == name]
    if not found:
        return None
    packages = [_package_text(point) for point in found]
    if len(found) > 1:
        raise error(f"{what} {name} is brought by two packages: {' and '.join(packages)}", where, "uninstall one")
    try:
        loaded = found[0].load()
    except (Exception, SystemExit) as cause:
        why = f"{type(cause).__name__}: {cause}"
        raise error(f"{what} {name} of {packages[0]} cannot be loaded: {why:.500}", where) from cause
    missing = [each for each in needed if not hasattr(loaded, each)]
    if missing:
        raise error(f"{what} {name} of {packages[0]} lacks {', '.join(missing)}", where)
    return loaded


def call_external(group: str, name: str, what: str, make: Callable[[], Made]) -> Made:
    """What `make`, code of the package that brings this name, returns. Raises ConfigError, one sentence that names the
    package, for whatever it raises that is no error of worldsize's."""
    try:
        return make()
    except WorldsizeError:
        raise
    except (Exception, SystemExit) as cause:
        found = [_package_text(point) for point in _entry_points(group, tuple(sys.path)) if point.name == name]
        why = f"{type(cause).__name__}: {cause}"
        raise ConfigError(f"{what} {name} of {' and '.join(found)} failed: {why:.500}") from cause


def _package_text(point: EntryPoint) -> str:
    """Name and version, and the object: `toy-compute 1.0 (toy_compute.module)`."""
    package = point.dist
    return f"{package.name} {package.version} ({point.value})" if package is not None else point.value


@lru_cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Those with a name that can stand in a file and in a path."""
    from importlib.metadata import entry_points

    return tuple(point for point in entry_points(group=group) if _NAME.fullmatch(point.name))
