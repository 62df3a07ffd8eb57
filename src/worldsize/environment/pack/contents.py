"""What belongs to an environment that is packed: its files, those of its Python, and which of them hold its path."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from worldsize.agent.node_disk.relocate import BINARY, Holder, holds
from worldsize.common.atomic_files import read_json
from worldsize.environment.inspect.existing import Existing
from worldsize.errors import UsageError
from worldsize.plan.pack_format import BASE

_SYSTEM = ("/usr", "/bin", "/opt/system", "/")
LEFT_OUT = frozenset(("pkgs", "envs", "conda-bld", ".trash"))
"""Of a conda installation's own prefix: its package cache and the other environments."""

_OUT_OF_BASE = frozenset(("site-packages", "test", "tests", "idlelib", "turtledemo", "ensurepip", "lib2to3"))
_TEMPORARY = (".part", ".lock")


class Entry(NamedTuple):
    name: str
    path: str
    status: os.stat_result
    link: str | None = None


def travelling_base(found: Existing) -> str | None:
    """The installation that a virtual environment's Python belongs to, unless it is the system's own."""
    if found.kind != "venv":
        return None
    python = os.path.realpath(found.python)
    prefix = os.path.dirname(os.path.dirname(python))
    if prefix in _SYSTEM or prefix == os.path.realpath(found.prefix):
        return None
    return prefix


def below(root: str, name: str, left_out: frozenset[str]) -> Iterator[Entry]:
    directory = os.path.join(root, name)
    try:
        with os.scandir(directory) as scanned:
            found = sorted(scanned, key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError("cannot be read: %s" % error.strerror, directory) from None
    for each in found:
        if each.name in left_out or each.name.endswith(_TEMPORARY):
            continue
        inner = os.path.join(name, each.name)
        status = each.stat(follow_symlinks=False)
        if each.is_symlink():
            yield Entry(inner, each.path, status, os.readlink(each.path))
        elif stat.S_ISDIR(status.st_mode):
            yield Entry(inner, each.path, status)
            yield from below(root, inner, frozenset())
        elif stat.S_ISREG(status.st_mode):
            yield Entry(inner, each.path, status)


def base_entries(base: str) -> Iterator[Entry]:
    """Of a Python installation what running needs: its programs, its standard library, its shared library."""
    yield Entry(BASE, base, os.stat(base))
    for part in ("bin", "lib"):
        top = os.path.join(base, part)
        if not os.path.isdir(top):
            continue
        yield Entry(os.path.join(BASE, part), top, os.stat(top))
        for entry in below(base, part, frozenset()):
            names = entry.name.split(os.sep)
            wanted = names[1].startswith(("python", "libpython")) or (part == "lib" and ".so" in names[1])
            if wanted and not _OUT_OF_BASE.intersection(names[2:]) and not entry.name.endswith(".a"):
                yield entry._replace(name=os.path.join(BASE, entry.name))


def holder(entry: Entry, found: Existing, base: str | None) -> Holder | None:
    """Bytecode names its source for tracebacks alone."""
    if entry.link is not None or not stat.S_ISREG(entry.status.st_mode) or entry.name.endswith(".pyc"):
        return None
    with open(entry.path, "rb") as file:
        data = file.read()
    kinds = {holds(data, os.fsencode(old)) for old in (found.prefix, base) if old} - {None}
    if not kinds:
        return None
    return Holder(entry.name, BINARY if BINARY in kinds else str(kinds.pop()))


def rooms(found: Existing, holders: Sequence[Holder]) -> list[Holder]:
    """With the room that conda left in what it installed: its packages were built in a place with a long name."""
    if found.kind != "conda":
        return list(holders)
    rooms = _conda_rooms(found.prefix)
    return [each._replace(room=rooms.get(each.path, 0)) if each.kind == BINARY else each for each in holders]


def _conda_rooms(prefix: str) -> dict[str, int]:
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


def remarks(found: Existing, base: str | None) -> Iterator[str]:
    """What nodes must have beside, since it is not in the file."""
    if found.kind == "venv" and base is None:
        yield "its Python is the system's (%s): the nodes must have it too" % os.path.realpath(found.python)
    for name, where in _editable(found.prefix):
        yield "%s is installed from %s, which is not packed: the nodes must see it there" % (name, where)


def _editable(prefix: str) -> Iterator[tuple[str, str]]:
    from glob import glob

    for path in sorted(glob(os.path.join(prefix, "lib", "python*", "site-packages", "*.dist-info", "direct_url.json"))):
        try:
            value: Any = read_json(path)
        except ValueError:
            continue
        if value and value.get("dir_info", {}).get("editable"):
            name = os.path.basename(os.path.dirname(path)).partition("-")[0]
            yield name, str(value.get("url", "")).removeprefix("file://")
