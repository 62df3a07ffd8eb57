"""The prefix, the version and the package directories of a Python, read from its files without starting it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from worldsize.agent.machine.node_files import names_in
from worldsize.agent.posix.processes import find_program
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import NamedTuple

_NAME = re.compile(r"(?:python|pypy)(\d+(?:\.\d+)?)?t?")
_LIBRARY = re.compile(r"python(\d+\.\d+)t?")


class PythonFiles(NamedTuple):
    """An installed Python, as its files describe it.

    program  its path, links not followed
    prefix   of the virtual or conda environment, or of the installation
    minor    "3.11", or "" if the files do not contain it
    version  "3.11.7", or "" if the files do not contain it
    base     for a virtual environment, the prefix of the Python that it was made of; "" for others
    system   whether it uses packages of the base, or of the distribution and the user
    """

    program: str
    prefix: str
    minor: str = ""
    version: str = ""
    base: str = ""
    system: bool = True


def find_python(program: str, environ: Mapping[str, str], directory: str = "/") -> str | None:
    """Return the path of the Python interpreter that a command line with the first word `program` starts in
    `directory`; None if it cannot be determined.

    The word is Python itself or a script with a Python in its first line, such as torchrun. Raise OSError if there is
    no such program.
    """
    path = find_program(os.path.join(directory, program) if os.sep in program else program, environ)
    if _NAME.fullmatch(os.path.basename(path)):
        return path if read_if_possible(path, 2) != b"#!" else None  # the programs of pyenv are bash scripts
    named = _interpreter(read_if_possible(path, 1024))
    if named is None or not _NAME.fullmatch(os.path.basename(named)):
        return None
    return find_program(named, environ)


def _interpreter(head: bytes) -> str | None:
    """Return the interpreter that the first lines `head` of a script name: `#!/usr/bin/env python3`,
    `#!/prefix/bin/python`, or the form that pip writes for long paths: `#!/bin/sh`, then `'''exec' "/long
    prefix/bin/python" "$0" "$@"`. Return None if they name none."""
    lines = head.decode("utf-8", "replace").split("\n")
    if not lines[0].startswith("#!"):
        return None
    words = lines[0][2:].split()
    if words and os.path.basename(words[0]) == "env":
        return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), None)
    long = re.match(r"'''exec' (?:\"([^\"]+)\"|(\S+))", lines[1]) if len(lines) > 1 else None
    if long:
        return long[1] or long[2]
    return words[0] if words else None


def read_python(program: str) -> PythonFiles:
    """Return the prefix, the version and the base of the Python at the path `program`, as PythonFiles, read from the
    files around it without starting it. Values that are not found stay empty."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    settings = _venv_settings(prefix)
    if settings is not None:
        base = os.path.dirname(settings.get("home", "")) if os.path.isabs(settings.get("home", "")) else ""
        version = settings.get("version_info") or settings.get("version") or ""
        full = re.match(r"\d+\.\d+\.\d+", version)
        minor = _minor(program, prefix) or ".".join(version.split(".")[:2])
        shared = settings.get("include-system-site-packages", "").lower() == "true"
        return PythonFiles(program, prefix, minor, full[0] if full else "", base, shared)
    real = os.path.realpath(program)
    prefix = os.path.dirname(os.path.dirname(real))
    minor = _minor(real, prefix)
    return PythonFiles(program, prefix, minor, _full_version(prefix, minor))


def package_directories(python: PythonFiles, environ: Mapping[str, str]) -> Sequence[str]:
    """Return the paths of the directories in which this Python looks for packages, in the order of its search:
    PYTHONPATH, the environment's own, the user's, the distribution's (site.py; Debian names them dist-packages)."""
    own = [directory for directory in environ.get("PYTHONPATH", "").split(os.pathsep) if os.path.isabs(directory)]
    if not python.minor:
        return own
    within = ("lib", f"python{python.minor}", "site-packages")
    if python.base:
        own.append(os.path.join(python.prefix, *within))
    if python.system:
        own += _system_directories(python, environ, within)
    return own


def _system_directories(python: PythonFiles, environ: Mapping[str, str], within: tuple[str, ...]) -> Iterator[str]:
    user = environ.get("PYTHONUSERBASE") or os.path.join(environ.get("HOME") or "/nowhere", ".local")
    if not environ.get("PYTHONNOUSERSITE"):
        yield os.path.join(user, *within)
    prefix = python.base or python.prefix
    if prefix == "/usr":
        yield os.path.join("/usr/local/lib", within[1], "dist-packages")
    for library in ("lib", "lib64"):
        yield os.path.join(prefix, library, *within[1:])
    yield os.path.join(prefix, "lib", "python3", "dist-packages")


def _venv_settings(prefix: str) -> dict[str, str] | None:
    """Return the settings in pyvenv.cfg of the virtual environment `prefix`, by lower-case name; None if there is no
    such file, so `prefix` is no virtual environment."""
    path = os.path.join(prefix, "pyvenv.cfg")
    if not os.path.isfile(path):
        return None
    lines = read_if_possible(path, 1 << 16).decode("utf-8", "replace").split("\n")
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _minor(program: str, prefix: str) -> str:
    """Return the minor version, such as "3.11", of the Python `program`: from the name of the file that the program's
    links lead to, else from the name of the only `python3.x` directory in `prefix`/lib; "" if neither contains it."""
    named = _LIBRARY.fullmatch(os.path.basename(os.path.realpath(program)))
    if named:
        return named[1]
    found = {match[1] for match in map(_LIBRARY.fullmatch, names_in(os.path.join(prefix, "lib"))) if match}
    return found.pop() if len(found) == 1 else ""


def _full_version(prefix: str, minor: str) -> str:
    """Return the full version, such as "3.11.7", of the Python in `prefix` with this minor version: from conda's record
    of its Python, else from the header of the C API, which not every installation has; "" if neither contains it."""
    if not minor:
        return ""
    for name in names_in(os.path.join(prefix, "conda-meta")):
        conda = re.fullmatch(r"python-(\d+\.\d+\.\d+)-[^-]+\.json", name)
        if conda and conda[1].startswith(minor + "."):
            return conda[1]
    header = read_if_possible(os.path.join(prefix, "include", f"python{minor}", "patchlevel.h"), 1 << 16)
    said = re.search(rb'#define\s+PY_VERSION\s+"(\d+\.\d+\.\d+)"', header)
    return said[1].decode() if said and said[1].decode().startswith(minor + ".") else ""
