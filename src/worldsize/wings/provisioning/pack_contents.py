"""The contents of a packed environment: its files, those of its Python installation, and the files that contain its
path."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from worldsize.common.atomic_files import read_json, read_object
from worldsize.environment.existing import ExistingEnvironment
from worldsize.errors import UsageError
from worldsize.wings.provisioning.agent.pack_format import BASE
from worldsize.wings.provisioning.agent.relocate import BINARY, PrefixFile, prefix_file_kind

_SYSTEM = ("/usr", "/bin", "/opt/system", "/")
EXCLUDED_NAMES = frozenset(("pkgs", "envs", "conda-bld", ".trash"))
"""Names in a conda installation's own prefix that are not packed: its package cache and the other environments."""

_BASE_EXCLUDED_NAMES = frozenset(("site-packages", "test", "tests", "idlelib", "turtledemo", "ensurepip", "lib2to3"))
_TEMPORARY = (".part", ".lock")


class PackEntry(NamedTuple):
    name: str
    path: str
    status: os.stat_result
    link: str | None = None


def base_installation(found: ExistingEnvironment) -> str | None:
    """Return the prefix of the Python installation on which the virtual environment `found` is based; None if that is
    the system's own, or `found` is no virtual environment."""
    if found.kind != "venv":
        return None
    python = os.path.realpath(found.python)
    prefix = os.path.dirname(os.path.dirname(python))
    if prefix in _SYSTEM or prefix == os.path.realpath(found.prefix):
        return None
    return prefix


def entries_below(root: str, name: str, left_out: frozenset[str]) -> Iterator[PackEntry]:
    directory = os.path.join(root, name)
    try:
        with os.scandir(directory) as scanned:
            found = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", directory) from None
    for each in found:
        if each.name in left_out or each.name.endswith(_TEMPORARY):
            continue
        inner = os.path.join(name, each.name)
        status = each.stat(follow_symlinks=False)
        if each.is_symlink():
            yield PackEntry(inner, each.path, status, os.readlink(each.path))
        elif stat.S_ISDIR(status.st_mode):
            yield PackEntry(inner, each.path, status)
            yield from entries_below(root, inner, frozenset())
        elif stat.S_ISREG(status.st_mode):
            yield PackEntry(inner, each.path, status)


def base_entries(base: str) -> Iterator[PackEntry]:
    """Yield a PackEntry for each file and directory of the Python installation `base` that a virtual environment needs
    to run: its programs, its standard library, its shared library."""
    yield PackEntry(BASE, base, os.stat(base))
    for part in ("bin", "lib"):
        top = os.path.join(base, part)
        if not os.path.isdir(top):
            continue
        yield PackEntry(os.path.join(BASE, part), top, os.stat(top))
        for entry in entries_below(base, part, frozenset()):
            names = entry.name.split(os.sep)
            wanted = names[1].startswith(("python", "libpython")) or (part == "lib" and ".so" in names[1])
            if wanted and not _BASE_EXCLUDED_NAMES.intersection(names[2:]) and not entry.name.endswith(".a"):
                yield entry._replace(name=os.path.join(BASE, entry.name))


def find_prefix_file(entry: PackEntry, prefixes: Iterable[str]) -> PrefixFile | None:
    """Return a PrefixFile for the pack's entry if the entry is a regular file that contains one of the paths
    `prefixes`; None if it contains none. Bytecode is ignored: it names its source file only for tracebacks."""
    if entry.link is not None or not stat.S_ISREG(entry.status.st_mode) or entry.name.endswith(".pyc"):
        return None
    with open(entry.path, "rb") as file:
        data = file.read()
    kinds = {prefix_file_kind(data, os.fsencode(old)) for old in prefixes} - {None}
    if not kinds:
        return None
    return PrefixFile(entry.name, BINARY if BINARY in kinds else str(kinds.pop()))


def with_conda_padding(found: ExistingEnvironment, holders: Sequence[PrefixFile]) -> list[PrefixFile]:
    """Return `holders`, the files that contain the environment's path, with the room for a longer path that conda left
    in its binary files. Conda packages are built in a directory with a long name. Without conda they are unchanged."""
    if found.kind != "conda":
        return list(holders)
    rooms = _conda_padding(found.prefix)
    return [each._replace(room=rooms.get(each.path, 0)) if each.kind == BINARY else each for each in holders]


def _conda_padding(prefix: str) -> dict[str, int]:
    """Return the room for a longer path in the binary files of conda's packages: a mapping of the file's path to bytes.
    Records in `conda-meta` that cannot be parsed are skipped: a file without a known room keeps the old path if the new
    one is longer."""
    rooms = {}
    directory = os.path.join(prefix, "conda-meta")
    for name in sorted(os.listdir(directory)):
        if not name.endswith(".json"):
            continue
        try:
            record: Any = read_json(os.path.join(directory, name))
            paths = record["paths_data"]["paths"]
        except (ValueError, KeyError, TypeError):
            continue
        for each in paths:
            if each.get("file_mode") == "binary" and each.get("prefix_placeholder"):
                rooms[each["_path"]] = max(0, len(each["prefix_placeholder"]) - len(prefix))
    return rooms


def portability_notices(found: ExistingEnvironment, base: str | None) -> Iterator[str]:
    """Yield notices, as text, about what nodes must have in addition to the packed file: the system's Python if `base`
    is None, and packages that are installed in editable mode from another directory."""
    if found.kind == "venv" and base is None:
        yield f"its Python is the system's ({os.path.realpath(found.python)}): the nodes must have it too"
    for name, where in _editable_installs(found.prefix):
        yield f"{name} is installed from {where}, which is not packed: the nodes must see it there"


def _editable_installs(prefix: str) -> Iterator[tuple[str, str]]:
    from glob import glob

    for path in sorted(glob(os.path.join(prefix, "lib", "python*", "site-packages", "*.dist-info", "direct_url.json"))):
        value = read_object(path)
        if value.get("dir_info", {}).get("editable"):
            name = os.path.basename(os.path.dirname(path)).partition("-")[0]
            yield name, str(value.get("url", "")).removeprefix("file://")
