"""Parts of worldsize that other packages provide: computes, launchers and distributions, found by the entry points of a
group.

The search takes longer than a whole short run, so only a name that worldsize itself does not know is looked up.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import ConfigError, WorldsizeError, error_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.metadata import EntryPoint
    from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ExternalPart(NamedTuple):
    """A part that another package may provide: the `name` of an entry point in a `group`, and `what` it is called in
    messages. `error` and `where` are the class and the place of the errors that are raised. Each error is one sentence
    that names the packages."""

    group: str
    name: str
    what: str
    error: type[WorldsizeError] = ConfigError
    where: str | None = None

    def load(self, needed: Sequence[str] = ()) -> Any:
        """Import and return the object that an installed package provides for this part, by its entry point; None if no
        package does.

        Raise `error` if two packages provide the name, if the object cannot be loaded, regardless of what that raises,
        or if it lacks an attribute in `needed`.
        """
        found = self._found()
        if not found:
            return None
        if len(found) > 1:
            what = f"{self.what} {self.name} is provided by two packages: {' and '.join(map(_package_text, found))}"
            raise self.error(what, self.where, "uninstall one")
        try:
            loaded = found[0].load()
        except BaseException as cause:  # any exception of a package, SystemExit too, is an error of that package
            raise self._failure("cannot be loaded", cause) from cause
        missing = [each for each in needed if not hasattr(loaded, each)]
        if missing:
            raise self.problem(f"lacks {', '.join(missing)}")
        return loaded

    def call(
        self, function: str, make: Callable[[], Any], is_right: Callable[[Any], bool] | None = None, wanted: str = ""
    ) -> Any:
        """Call `make`, a function of the package that provides this part, and return its result. `function` is the
        function's name in error messages.

        Raise `error` if `make` raises an exception that is no error of worldsize's, or if `is_right` rejects the
        result, which should be `wanted`.
        """
        try:
            made = make()
            right = is_right is None or is_right(made)
        except WorldsizeError:
            raise
        except BaseException as cause:  # as in `load`; `_failure` lets an interrupt through
            raise self._failure(f"failed in {function}", cause) from cause
        if not right:
            raise self.problem(f"failed: {function} returned {_value_text(made)}, which is not {wanted}")
        return made

    def problem(self, what: str) -> WorldsizeError:
        """Return an exception of the class `error` whose text names this part and the packages that provide it,
        followed by `what`."""
        packages = " and ".join(map(_package_text, self._found()))
        whose = f" of {packages}" if packages else ""
        return self.error(f"{self.what} {self.name}{whose} {what}", self.where)

    def _failure(self, what: str, cause: BaseException) -> WorldsizeError:
        """Return the exception that reports `cause`, an exception that the code of a package raised while `what`
        happened. Raise `cause` itself again if it is a KeyboardInterrupt."""
        if isinstance(cause, KeyboardInterrupt):
            raise cause
        return self.problem(f"{what}: {error_text(cause)}")

    def _found(self) -> list[EntryPoint]:
        return [point for point in _entry_points(self.group, tuple(sys.path)) if point.name == self.name]


def entry_point_names(group: str) -> tuple[str, ...]:
    """Return the names of the entry points that installed packages provide in `group`, such as the computes or
    launchers, each once."""
    return tuple(dict.fromkeys(point.name for point in _entry_points(group, tuple(sys.path))))


def _value_text(value: object) -> str:
    try:
        return " ".join(f"{value!r:.80}".split())
    except Exception:  # noqa: BLE001  the __repr__ of a package's object may raise anything
        return f"a {type(value).__name__}"


def _package_text(point: EntryPoint) -> str:
    """Return the name and version of the package that provides an entry point, and the object: `toy-scheduler 1.0
    (toy_scheduler.compute)`; the object alone if the package is unknown."""
    package = point.dist
    return f"{package.name} {package.version} ({point.value})" if package is not None else point.value


@lru_cache
def _entry_points(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points that installed packages provide in `group` and whose names can be used in a file and in a
    path. `path` is `sys.path`, so that the result is cached for it."""
    from importlib.metadata import entry_points

    return tuple(point for point in entry_points(group=group) if _NAME.fullmatch(point.name))
