"""What each file of a code directory held when it was last read, so that unchanged files are not read again.

A file counts as unchanged while size, both times and inode are the same. One that was modified less than two seconds
before it was looked at is not remembered: a second change within the file system's clock tick would not show.
"""

from __future__ import annotations

import json
import os

from worldsize.environment.objects import digest_of
from worldsize.plan.files import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RACY_NS = 2 * 10**9

_Entry = list["Any"]


class Index:
    """One code directory's index, in the objects directory: a cache, dropped when it cannot be read."""

    def __init__(self, directory: str, root: str, started_ns: int) -> None:
        self.path = "%s/index-%s" % (directory, digest_of(os.fsencode(root)))
        self.limit_ns = started_ns - _RACY_NS
        self.new: dict[str, _Entry] = {}
        self.old = _read(self.path)

    def known(self, relative: str, status: os.stat_result) -> str | None:
        """The digest of the file's content, if it is certain; remembered for the next time."""
        entry = self.old.get(relative)
        if entry is None or entry[:4] != stamp(status):
            return None
        self.new[relative] = entry
        return str(entry[4])

    def learn(self, relative: str, status: os.stat_result, digest: str) -> None:
        if status.st_mtime_ns < self.limit_ns and status.st_ctime_ns < self.limit_ns:
            self.new[relative] = [*stamp(status), digest]

    def save(self) -> None:
        if self.new == self.old:
            return
        try:
            write_json(self.path, self.new)
        except OSError:
            pass


def _read(path: str) -> dict[str, _Entry]:
    try:
        with open(path, "rb") as file:
            entries = json.load(file)
    except (OSError, ValueError):
        return {}
    whole = isinstance(entries, dict) and all(isinstance(entry, list) and len(entry) == 5 for entry in entries.values())
    return entries if whole else {}


def stamp(status: os.stat_result) -> list[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
