"""Copies of a project for a few steps of its training. Large files and directories are not copied, but linked.

A training that is checked writes through no link (`inrank/recorder.py` refuses it).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping

from worldsize.errors import UsageError
from worldsize.snapshot.ignore_rules import is_always_ignored, is_environment

LARGE_FILE = 16 * 1024 * 1024
LARGE_DIRECTORY = 1000
MOST_ENTRIES = 50_000


def copy_project(source: str, target: str, texts: Mapping[str, str]) -> None:
    """Copy the directory of a project into the empty directory `target`. `texts` maps paths of files, relative to the
    project, to the texts that replace them. Files of more than 16 MiB, and directories of more than 1,000 entries,
    become links to the originals. Environments, pipes and unreadable files are left out. Raise UsageError if there are
    more than 50,000 entries, or if a text would be written through a link. Raise OSError if the copy cannot be written.
    """
    copy = _Copy(source, target, {os.path.dirname(path) for path in texts})
    copy.copy_directory("")
    for path, text in texts.items():
        _write(target, path, text)


def _write(target: str, path: str, text: str) -> None:
    place = os.path.join(target, path)
    expected = os.path.normpath(os.path.join(os.path.realpath(target), os.path.dirname(path)))
    if os.path.realpath(os.path.dirname(place)) != expected:
        hint = "start the check in the directory of the script"
        raise UsageError("cannot be checked: a link leads to it", path, hint)
    if os.path.lexists(place):
        os.unlink(place)
    with open(place, "w", encoding="utf-8", newline="") as file:
        file.write(text)


class _Copy:
    """A copy of a project that is being written. `changed` are the directories that must not become links."""

    def __init__(self, source: str, target: str, changed: Iterable[str]) -> None:
        self._changed = [directory + os.sep for directory in changed]
        self._source = os.path.realpath(source)
        self._target = target
        self._left = MOST_ENTRIES

    def copy_directory(self, relative: str) -> None:
        try:
            with os.scandir(os.path.join(self._source, relative)) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except PermissionError:
            return
        self._left -= len(entries)
        if self._left < 0:
            hint = "keep data elsewhere, and name it by an absolute path"
            raise UsageError(f"cannot be checked: it contains more than {MOST_ENTRIES:,} files", self._source, hint)
        for entry in entries:
            if not is_always_ignored(entry.name):
                self._copy_entry(entry, os.path.join(relative, entry.name))

    def _copy_entry(self, entry: os.DirEntry[str], relative: str) -> None:
        target = os.path.join(self._target, relative)
        if entry.is_symlink():
            self._copy_link(entry.path, target)
        elif entry.is_dir():
            names = _names(entry.path)
            if len(names) > LARGE_DIRECTORY and not self._is_changed(relative):
                os.symlink(entry.path, target)
            elif not is_environment(names):
                os.mkdir(target)
                self.copy_directory(relative)
        elif entry.is_file():
            if entry.stat().st_size > LARGE_FILE:
                os.symlink(entry.path, target)
            else:
                _copy_file(entry.path, target)

    def _is_changed(self, relative: str) -> bool:
        return any(directory.startswith(relative + os.sep) for directory in self._changed)

    def _copy_link(self, path: str, target: str) -> None:
        """Copy a symbolic link of the project to the path `target`. A link inside the project points to the same place
        in the copy. Another link keeps its target."""
        real = os.path.realpath(path)
        if real.startswith(self._source + os.sep):
            real = os.path.join(self._target, os.path.relpath(real, self._source))
        os.symlink(real, target)


def _names(path: str) -> set[str]:
    try:
        return set(os.listdir(path))
    except PermissionError:
        return set()


def _copy_file(source: str, target: str) -> None:
    try:
        shutil.copyfile(source, target)
        shutil.copymode(source, target)
    except PermissionError:
        return
