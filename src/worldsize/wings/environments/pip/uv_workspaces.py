"""The files that uv looks for above a project or a source tree, and the directories in which other users could create
them.

uv reads settings from the nearest directory above that has some, and finds a workspace in the nearest directory that
defines one. Below a directory like /tmp any user can create such a file at any moment, so that a check for its
existence is not enough. uv is then started in another way, in which it does not search.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from worldsize.common.atomic_files import open_regular_file, write_bytes
from worldsize.errors import BuildError
from worldsize.trust.decisions import decision_about_directory, decision_about_file
from worldsize.trust.owners import danger_of
from worldsize.trust.projects import danger_of_file
from worldsize.wings.environments.pip.requirements import directories_from, uv_table
from worldsize.wings.environments.sources import read_named_file

_NAMES = ("uv.toml", "pyproject.toml", ".python-version", ".python-versions")
_FILE_VARIABLES = ("UV_CONFIG_FILE", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT", "UV_OVERRIDE")
_LONGEST = 1 << 20


def refuse_settings_above(directory: str, environ: Mapping[str, str]) -> None:
    """Raise BuildError if another user could have written a file above `directory` from which uv would read settings.
    The directories above its name and above its real path are checked, since uv may follow either."""
    for path in {os.path.abspath(directory), os.path.realpath(directory)}:
        for above in directories_from(os.path.dirname(path)):
            for name in _NAMES:
                _refuse_foreign(os.path.join(above, name), environ)


def _refuse_foreign(path: str, environ: Mapping[str, str]) -> None:
    try:
        with open(open_regular_file(path), "rb") as file:
            danger = danger_of_file(path, os.fstat(file.fileno()))
            trusted = danger and decision_about_file(path, file.read(_LONGEST), environ)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise BuildError(f"cannot be read: {error.strerror}", path) from None
    if danger and not trusted:
        what = f"uv would read package sources from it, and {danger}"
        raise BuildError(what, path, f"if you trust it: worldsize config trust {path}")


def settings_files(directory: str, environ: Mapping[str, str]) -> list[str]:
    """Return the files other than pyproject.toml in which uv, started in `directory`, may find requirements: its
    settings, and the lists that its variables name."""
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    found = [os.path.join(home, "uv", "uv.toml"), "/etc/uv/uv.toml"]
    for name in _FILE_VARIABLES:
        found += [os.path.join(directory, each) for each in environ.get(name, "").split()]
    found += [os.path.join(at, "uv.toml") for at in directories_from(os.path.abspath(directory))]
    return [path for path in found if os.path.isfile(path)]


def is_search_exposed(directory: str, ends: Callable[[str], bool], environ: Mapping[str, str]) -> bool:
    """Return whether uv's search from `directory` upwards reaches a directory where other users may create files before
    it ends. `ends` returns whether the search ends in a directory."""
    start = os.path.realpath(directory)
    for at in directories_from(start):
        status = os.stat(at)
        if at != start and danger_of(status, at) and not decision_about_directory(at, status, environ):
            return True
        if ends(at):
            return False
    return False


def has_settings(directory: str) -> bool:
    """Return whether uv's search for settings ends in `directory`: it has a uv.toml, or a pyproject.toml with
    [tool.uv]."""
    return os.path.exists(os.path.join(directory, "uv.toml")) or bool(uv_table(directory))


def is_workspace(directory: str) -> bool:
    """Return whether uv's search for a workspace ends in `directory`: its pyproject.toml defines one."""
    return isinstance(uv_table(directory).get("workspace"), dict)


def may_omit_sources(directories: Iterable[str], environ: Mapping[str, str]) -> bool:
    """Return whether uv can be started with `--no-sources` for the projects and source trees `directories`: the only
    effect is then that uv ignores workspaces that other users may have created."""
    found = list(directories)
    if any(uv_table(each).get("sources") for each in found):
        return False
    return bool(found) and all(is_search_exposed(each, is_workspace, environ) for each in found)


def write_isolated_copy(directory: str, place: str) -> str:
    """Copy the pyproject.toml and uv.lock of a project into the new directory `place`, which is below no other
    workspace. Return the copy's directory. Raise UsageError or OSError."""
    copy = os.path.join(place, "project")
    os.makedirs(copy, 0o700)
    write_bytes(os.path.join(place, "pyproject.toml"), b"[tool.uv.workspace]\nexclude = ['project']\n", private=True)
    for name in ("pyproject.toml", "uv.lock"):
        write_bytes(os.path.join(copy, name), read_named_file(os.path.join(directory, name)), private=True)
    return copy
