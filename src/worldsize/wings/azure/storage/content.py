"""The content of a folder or a file: paths, executable bits and bytes, independently of times and order."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from worldsize.common.atomic_files import open_regular_file, printable_text
from worldsize.errors import SnapshotError
from worldsize.snapshot.ignore_rules import AML, GIT, IgnoreRules

_CHUNK = 1 << 20
_MOST_NAMES = 5


class ContentFile(NamedTuple):
    """A file of the content.

    name     relative to the folder, with "/"; for a single file its last name
    path     the path of the file on this machine
    size     in bytes
    digest   SHA-256 of its content, in hexadecimal
    """

    name: str
    path: str
    size: int
    digest: str
    executable: bool = False


class Content(NamedTuple):
    """The content of a folder or a file.

    digest     in hexadecimal: the same for the same files, for any name and location of the folder
    files      sorted by name
    left_out   texts about what is not among the files: links that lead nowhere or in circles, pipes, devices, and files
               that an ignore file excludes
    """

    digest: str
    files: tuple[ContentFile, ...]
    left_out: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The total size of the files in bytes."""
        return sum(file.size for file in self.files)


def file_content(path: str) -> Content:
    """Return the content of the single file `path` for an upload: its name, size and digest. The digest of the whole is
    the SHA-256 of the file. Raise SnapshotError if it cannot be read."""
    file = _read(path, _checked_name(os.path.basename(path), path))
    return Content(file.digest, (file,))


def folder_content(folder: str, ignores: bool = False) -> Content:
    """Return the content of a folder for an upload, with the digest of each file: all files below it, including those
    to which links lead, since a store of blobs has no links and no empty folders. With `ignores`, files are left out
    that the folder's own `.amlignore`, else its `.gitignore`, excludes, as in Azure's client. Raise SnapshotError if
    something cannot be read, or has a name that is not UTF-8."""
    files: list[ContentFile] = []
    odd: list[str] = []
    warnings: list[str] = []
    ignored = 0
    rules = _own_rules(folder, warnings) if ignores else IgnoreRules()
    top = _status(folder)
    pending = [("", frozenset([(top.st_dev, top.st_ino)] if top else ()))]
    while pending:
        prefix, above = pending.pop()
        for name, path, status in _entries(os.path.join(folder, prefix)):
            relative = _checked_name(prefix + name, path)
            if status is not None and stat.S_ISDIR(status.st_mode):
                place = (status.st_dev, status.st_ino)
                if place in above:
                    odd.append(relative)
                else:
                    pending.append((relative + "/", above | {place}))
            elif rules.is_ignored(relative, directory=False):
                ignored += 1
            elif status is not None and stat.S_ISREG(status.st_mode):
                files.append(_read(path, relative))
            else:
                odd.append(relative)
    files.sort(key=lambda file: file.name.encode())
    listed = "".join(f"{file.digest} {'x' if file.executable else '-'} {file.name}\0" for file in files)
    if odd:
        warnings.append(f"left out, since they point to no file: {_listed(sorted(odd))}")
    if ignored:
        warnings.append(f"left out by its {GIT if rules.git else AML}: {ignored} of {ignored + len(files)} files")
    return Content(hashlib.sha256(listed.encode()).hexdigest(), tuple(files), tuple(warnings))


def _own_rules(folder: str, warnings: list[str]) -> IgnoreRules:
    try:
        return IgnoreRules().enter(folder, "", set(os.listdir(folder)), warnings)
    except OSError as error:
        raise _unreadable(error, folder) from None


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(map(printable_text, names[:_MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def _entries(folder: str) -> list[tuple[str, str, os.stat_result | None]]:
    """Return (name, path, stat) of each entry of the directory `folder`. Links are followed; the stat is None if one
    leads nowhere."""
    try:
        return [(name, os.path.join(folder, name), _status(os.path.join(folder, name))) for name in os.listdir(folder)]
    except OSError as error:
        raise _unreadable(error, folder) from None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError as error:
        if os.path.islink(path):
            return None
        raise _unreadable(error, path) from None


def _read(path: str, name: str) -> ContentFile:
    digest, size = hashlib.sha256(), 0
    try:
        with open(open_regular_file(path), "rb") as file:
            executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
    except OSError as error:
        raise _unreadable(error, path) from None
    return ContentFile(name, path, size, digest.hexdigest(), executable)


def _checked_name(name: str, path: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SnapshotError("its name is not UTF-8, as names in Azure are", printable_text(path), "rename it") from None
    return name


def _unreadable(error: OSError, path: str) -> SnapshotError:
    return SnapshotError(f"cannot read it: {error.strerror or error}", printable_text(path), "make it readable")
