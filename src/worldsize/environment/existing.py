"""Environments that exist already: a prefix, a virtual or conda environment, or an interpreter, found by path or by
name."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping

from worldsize.common.atomic_files import printable_text, read_file
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import NotFound, StorageError, UsageError
from worldsize.trust.directories import is_reliable_directory, real_path
from worldsize.trust.keys import user_home

DESCRIPTION = "worldsize-environment.json"
"""The file in a built environment that describes the environment. It is written last."""

_ROOTS = ("miniforge3", "mambaforge", "miniconda3", "anaconda3", "miniconda", "anaconda", "micromamba", ".conda")
_LIB = r"python(\d+)\.(\d+)t?"


class ExistingEnvironment(NamedTuple):
    """An environment that exists. `kind` is "conda", "venv" or "prefix" (any directory with a bin/python). `version` is
    (3, 11), for example; None if its files do not show it."""

    prefix: str
    kind: str
    version: tuple[int, int] | None = None

    @property
    def python(self) -> str:
        return os.path.join(self.prefix, "bin", "python")


def find_existing(wanted: str, environ: Mapping[str, str], own: Mapping[str, str] = {}) -> ExistingEnvironment:
    """Return the existing environment `wanted`: the one at that path if it contains a slash, else the one of that name.
    `own` maps names of environments that worldsize has built to their prefixes; these have priority.

    Names are searched where conda, mamba and virtualenvwrapper keep their environments. Raise NotFound, with the
    nearest name, if there is none. Raise NotFound also if another user could have created the environment. Raise
    UsageError if the path is an interpreter that is not the `python` of its directory.
    """
    if os.sep in wanted:
        return _environment_at(wanted)
    if wanted in own:
        built = inspect_prefix(own[wanted])
        if built is None:
            what, hint = explain_missing_python(own[wanted])
            raise NotFound(f"environment {os.path.basename(own[wanted])}: {what}", None, hint)
        return built
    untrusted: str | None = None
    for found in filter(None, map(inspect_prefix, _candidate_prefixes(wanted, environ))):
        if is_trusted_prefix(found.prefix):
            return found
        untrusted = untrusted or found.prefix
    if untrusted:
        what = f"there is an environment {wanted!r:.60} at {untrusted}, which another user could have created"
        raise NotFound(what, None, f"give its path; or worldsize config trust {untrusted}")
    raise _not_found_error(wanted, environ, own)


def _candidate_prefixes(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the directories (prefixes) in which a conda or virtual environment named `name` may be: in the directories
    of environments, then in conda's registry. For "base", the installations of conda itself follow."""
    yield from (os.path.join(directory, name) for directory in _environment_directories(environ))
    yield from (path for path in _read_conda_registry(environ) if os.path.basename(path) == name)
    if name == "base":
        yield from (root for root in _conda_roots(environ) if os.path.isdir(os.path.join(root, "conda-meta")))


def is_trusted_prefix(prefix: str) -> bool:
    """Return whether the environment in the directory `prefix`, which was found by its name, is the one that the user
    means, and not one that another user placed there. It must belong to this user, to root or to a trusted owner. Or it
    is in a tree of one owner to which no other user can write, at a place where no other user could have put it. False
    also if its directories cannot be read."""
    try:
        place = os.path.join(real_path(prefix, check_parents=False), "bin")  # no link belongs to another user
        if is_reliable_directory(place):
            return True
        owner = os.stat(place).st_uid
        while (status := os.stat(place)).st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            place = os.path.dirname(place)
        return status.st_uid != owner and is_reliable_directory(place)
    except (StorageError, OSError):
        return False


def inspect_prefix(prefix: str) -> ExistingEnvironment | None:
    """Return the environment in the directory `prefix`; None if it has no bin/python."""
    if not os.path.exists(os.path.join(prefix, "bin", "python")):
        return None
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        kind = "conda"
    else:
        kind = "venv" if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")) else "prefix"
    return ExistingEnvironment(prefix, kind, python_version(prefix))


def venv_home(prefix: str) -> str | None:
    """Return the directory of the Python from which a virtual environment was created, as its pyvenv.cfg states; None
    for other directories."""
    try:
        text = read_file(os.path.join(prefix, "pyvenv.cfg"), 1 << 16).decode("utf-8")
    except (OSError, ValueError):
        return None
    found = re.search(r"^[ \t]*home[ \t]*=[ \t]*(.*)$", text, re.MULTILINE | re.IGNORECASE)
    return found[1].strip() if found and os.path.isabs(found[1]) else None


def explain_missing_python(prefix: str) -> tuple[str, str]:
    """Return two texts about the environment in `prefix`, which worldsize has built and whose Python was removed since:
    what is missing, and a hint."""
    path = os.path.join(prefix, "bin", "python")
    target = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else path
    mend = f"restore it; or worldsize env remove {os.path.basename(prefix)}: its next use rebuilds it"
    return f"its Python no longer exists: {target}", mend


def python_version(prefix: str) -> tuple[int, int] | None:
    """Return the version, such as (3, 11), of the Python in the environment `prefix` from its files, without executing
    anything; None if they do not show it. The target of the link bin/python has priority over the directories in lib,
    of which there may be several."""
    target = os.path.basename(os.path.realpath(os.path.join(prefix, "bin", "python")))
    named = re.fullmatch(_LIB, target)
    if named:
        return int(named[1]), int(named[2])
    try:
        found = [re.fullmatch(_LIB, name) for name in os.listdir(os.path.join(prefix, "lib"))]
    except OSError:
        return None
    versions = {(int(each[1]), int(each[2])) for each in found if each}
    return versions.pop() if len(versions) == 1 else None


def _environment_at(path: str) -> ExistingEnvironment:
    if os.path.isfile(path) and os.access(path, os.X_OK):
        return _environment_of_python(path)
    if not os.path.isdir(path):
        hint = "correct it: a directory with bin/python in it, or an interpreter"
        raise NotFound(f"no such environment: {printable_text(path)}", None, hint)
    found = inspect_prefix(path)
    if found is None:
        raise NotFound(
            f"{printable_text(path)} has no bin/python, so it is not an environment", None, "name its directory"
        )
    return found


def _environment_of_python(path: str) -> ExistingEnvironment:
    """Return the environment whose bin/python is the interpreter at `path`. Raise UsageError if there is none."""
    directory, name = os.path.split(os.path.abspath(path))
    found = inspect_prefix(os.path.dirname(directory)) if os.path.basename(directory) == "bin" else None
    if found is not None and os.path.realpath(found.python) == os.path.realpath(path):
        return found
    version = name.removeprefix("python")
    raise UsageError(
        f"{printable_text(path)} is not the `python` of its directory",
        None,
        "give the version, python: {}; or name a virtual or conda environment".format(version or "3.11"),
    )


def _environment_directories(environ: Mapping[str, str]) -> list[str]:
    """Return the directories in which conda, mamba and virtualenvwrapper keep environments, one subdirectory for each,
    according to the variables in `environ`. They need not exist."""
    found = [
        *environ.get("CONDA_ENVS_PATH", "").split(os.pathsep),
        *environ.get("CONDA_ENVS_DIRS", "").split(os.pathsep),
        *(os.path.join(root, "envs") for root in _conda_roots(environ)),
        environ.get("WORKON_HOME", ""),
        os.path.join(user_home(environ), ".virtualenvs"),
    ]
    return [each for each in found if each]


def _conda_roots(environ: Mapping[str, str]) -> list[str]:
    """Return the directories in which conda, mamba or micromamba may be installed, according to the variables in
    `environ` and by their usual names in the user's home. They need not exist."""
    active = environ.get("CONDA_PREFIX", "")
    parent = os.path.dirname(active)
    found = [
        environ.get("MAMBA_ROOT_PREFIX", ""),
        os.path.dirname(os.path.dirname(environ.get("CONDA_EXE", ""))),
        os.path.dirname(parent) if os.path.basename(parent) == "envs" else active,
        *(os.path.join(user_home(environ), name) for name in _ROOTS),
    ]
    return [each for each in found if each]


def _read_conda_registry(environ: Mapping[str, str]) -> list[str]:
    """Return the prefixes of environments in conda's registry file (~/.conda/environments.txt); none if it is missing
    or cannot be read."""
    home = user_home(environ)
    try:
        with open(os.path.join(home, ".conda", "environments.txt"), encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError):
        return []


def _not_found_error(name: str, environ: Mapping[str, str], own: Mapping[str, str]) -> NotFound:
    """Return the NotFound error for the unknown environment `name`, with the nearest known name as a hint. Directories
    that cannot be read are ignored."""
    from worldsize.jobspec.reading.nearest import did_you_mean

    known = dict.fromkeys(own)
    for directory in _environment_directories(environ):
        try:
            known.update(dict.fromkeys(each for each in os.listdir(directory) if not each.startswith(".")))
        except OSError:
            continue
    known.update(dict.fromkeys(os.path.basename(path) for path in _read_conda_registry(environ)))
    if not known:
        return NotFound(f"there is no environment {name!r:.60}", None, "name a file, a path, or [environment.NAME]")
    return NotFound(f"there is no environment {name!r:.60}", None, did_you_mean(name, known, "there are"))
