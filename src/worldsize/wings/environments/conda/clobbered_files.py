"""Whether anything changed what conda installed: its files are compared with what conda says they were."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from worldsize.common.atomic_files import open_regular_file
from worldsize.errors import BuildError
from worldsize.wings.environments.inspect.installed import InstalledDistribution, conda_packages, record_rows

_SHOWN = 10
_CHUNK = 1 << 20

FileStamps = dict[str, tuple[int, int, int]]
"""Size, time of change and inode of files, by their path in the prefix."""


class ClobberedFile(NamedTuple):
    """`file` (relative to the prefix) of the conda `package` is "changed" or "removed", by the distribution `by`; None
    where no distribution owns up to it."""

    file: str
    package: str
    what: str
    by: str | None

    def text(self) -> str:
        return "{} of {} was {} by {}".format(self.file, self.package, self.what, self.by or "a build step")


def read_file_stamps(prefix: str) -> FileStamps:
    """What conda's files look like now."""
    found = {}
    for file, _, _ in _conda_files(prefix):
        stamp = _stamp(os.path.join(prefix, file))
        if stamp:
            found[file] = stamp
    return found


def find_clobbered(
    prefix: str, before: FileStamps | None, since: Iterable[InstalledDistribution]
) -> list[ClobberedFile]:
    """Conda's files that are not what they were, and which of the distributions installed `since` did it.

    Files that look as they did `before` are not read; with None, all are.
    """
    owners = _file_owners(prefix, since)
    found = []
    for file, package, digest in _conda_files(prefix):
        path = os.path.join(prefix, file)
        stamp = _stamp(path)
        if stamp is None:
            found.append(ClobberedFile(file, package, "removed", owners.get(file)))
        elif (before is None or before.get(file) != stamp) and not _has_digest(path, digest):
            found.append(ClobberedFile(file, package, "changed", owners.get(file)))
    return sorted(found)


def refuse_clobbered(found: list[ClobberedFile], mode: str) -> None:
    """BuildError with the names, unless `mode` is "warn"."""
    if not found or mode == "warn":
        return
    lines = ["  " + each.text() for each in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines.append(f"  and {len(found) - _SHOWN} more")
    files = "a file" if len(found) == 1 else f"{len(found)} files"
    raise BuildError(
        "pip changed {} of conda's:\n{}".format(files, "\n".join(lines)),
        None,
        "let conda or pip bring it, not both; clobber: warn takes it as it is",
    )


def _conda_files(prefix: str) -> Iterator[tuple[str, str, str | None]]:
    """Path, package and SHA-256 of each file that conda put there; None for links and what has no checksum."""
    for package in conda_packages(prefix):
        for entry in (package.get("paths_data") or {}).get("paths", ()):
            if entry.get("path_type") != "directory" and not entry["_path"].endswith(".pyc"):
                yield entry["_path"], str(package["name"]), _digest_of(entry)


def _digest_of(entry: dict[str, Any]) -> str | None:
    if entry.get("path_type") == "softlink":
        return None
    return entry.get("sha256_in_prefix") or entry.get("sha256")


def _file_owners(prefix: str, since: Iterable[InstalledDistribution]) -> dict[str, str]:
    found = {}
    for each in since:
        site = os.path.dirname(each.path)
        for file, _ in record_rows(each.path):
            found[os.path.relpath(os.path.normpath(os.path.join(site, file)), prefix)] = f"{each.name} {each.version}"
    return found


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns, status.st_ino


def _has_digest(path: str, digest: str | None) -> bool:
    if digest is None:
        return os.path.islink(path) or os.path.exists(path)
    found = hashlib.sha256()
    try:
        with open(open_regular_file(path), "rb") as file:
            while data := file.read(_CHUNK):
                found.update(data)
    except OSError:
        return False
    return found.hexdigest() == digest
