"""Launchers that other packages provide. Each is a module of one file, which needs only what the agent has.

The module has `FACTS`, its LauncherFacts (whose `module` is not used), and `LAUNCHER`. When a run is submitted, the
module is the entry point of its name in the group `worldsize.launchers`. Its file travels in the run's directory, from
which nodes load it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import stat
import sys
from types import ModuleType

from worldsize.common.named_tuple import Any
from worldsize.errors import PlanError, error_text
from worldsize.plan.run_paths import LAUNCHER_PREFIX
from worldsize.trust.owners import is_believed

GROUP = "worldsize.launchers"
_NEEDED = ("FACTS", "LAUNCHER")
_METHODS = ("is_available", "prepare", "processes", "failures", "warnings")
_NAME = "[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_WHERE = "distribution.launcher"


def file_name(name: str) -> str:
    """Return the name of the file in a run's directory that contains the launcher `name` of another package. Raise
    PlanError if `name` is no launcher's name."""
    if not re.fullmatch(_NAME, name):
        raise PlanError(f"{name!r:.80} is not a launcher's name", _WHERE)
    return f"{LAUNCHER_PREFIX}{name}.py"


def find_installed_module(name: str) -> Any:
    """Return the module that an installed package provides for the launcher `name`; None if no package provides one.
    Raise PlanError if it cannot be used, or if it is not a single file of Python."""
    part = _installed_part(name)
    module = part.load(_NEEDED) if part is not None else None
    if module is not None and not _is_single_file(getattr(module, "__file__", None) or ""):
        what = f"the launcher {name} is not a single Python file, and cannot be copied to the nodes"
        raise PlanError(what, _WHERE, "its entry point names a module, and neither a package nor an object in one")
    return module


def _is_single_file(path: str) -> bool:
    return path.endswith(".py") and os.path.basename(path) != "__init__.py" and os.path.isfile(path)


def launcher_error(name: str, what: str) -> PlanError:
    """Return a PlanError with the text `what` about the launcher `name` of another package. If an installed package
    provides the launcher, the error names that package."""
    part = _installed_part(name)
    error: PlanError = part.problem(what) if part else PlanError(f"the launcher {name} {what}", _WHERE)
    return error


def _installed_part(name: str) -> Any:
    try:
        from worldsize.entry_points import ExternalPart
    except ImportError:  # on a node, which has only the agent
        return None
    return ExternalPart(GROUP, name, "the launcher", PlanError, _WHERE)


def module_problem(module: Any, kind: type) -> str:
    """Check that `module` can be used as a launcher: that its FACTS are a `kind` (LauncherFacts) with valid fields, and
    that its LAUNCHER has all methods. Return the problem as text; "" if there is none."""
    from worldsize.common.json_values import PARSE_ERRORS, check_fields

    if not isinstance(module.FACTS, kind):
        return "cannot be used: its FACTS are not LauncherFacts"
    try:
        facts: Any = module.FACTS
        check_fields(facts).title.format(node=0, first=0, last=0, world=1)
    except PARSE_ERRORS as error:
        return f"cannot be used: in its FACTS {error_text(error)}"
    missing = [each for each in _METHODS if not callable(getattr(module.LAUNCHER, each, None))]
    return f"cannot be used: its LAUNCHER lacks {', '.join(missing)}" if missing else ""


def launcher_source(name: str) -> bytes:
    """Return the source code of the launcher `name` that an installed package provides, for copying to the nodes. Raise
    PlanError if there is no such launcher, or as `find_installed_module` does. Raise OSError."""
    module = find_installed_module(name)
    if module is None:
        raise PlanError(f"there is no launcher {name!r:.40}", _WHERE)
    with open(module.__file__, "rb") as file:
        return file.read()


def load_file(name: str, path: str) -> ModuleType:
    """Execute the file `path`, which contains the launcher `name` of another package and was sent with the run, as a
    module, and return the module. Raise PlanError if the file does not exist, belongs to another user, or is no
    launcher."""
    module = ModuleType("worldsize_launcher_" + name)
    module.__file__ = path
    try:
        source = _own_bytes(path)
        sys.modules[module.__name__] = module
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)  # nosec B102  # as the agent next to it
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # another package's code may raise anything
        raise PlanError(f"the launcher {name} cannot be loaded: {error_text(error)}", path) from error
    missing = [each for each in _NEEDED if not hasattr(module, each)]
    if missing:
        raise PlanError(f"the launcher {name} lacks {', '.join(missing)}", path)
    return module


def _own_bytes(path: str) -> bytes:
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not is_believed(status.st_uid):
            raise OSError("it belongs to another user, or is not a file")
        return file.read()
