"""What each file of a code directory held when it was last read, so that unchanged files are not read again.

A file counts as unchanged while size, both times and inode are the same. One that was modified less than two seconds
before it was looked at is not remembered: a second change within the file system's clock tick would not show.
"""

from __future__ import annotations

import os

import msgspec

from worldsize.environment.objects import digest_of
from worldsize.plan.files import write_bytes

_RACY_NS = 2 * 10**9

_Entry = tuple[int, int, int, int, str]
_decoder = msgspec.msgpack.Decoder(dict[bytes, _Entry])


class Index:
    """One code directory's index, in the objects directory: a cache, dropped when it cannot be read."""

    def __init__(self, directory: str, root: str, started_ns: int) -> None:
        self.path = "%s/index-%s" % (directory, digest_of(os.fsencode(root)))
        self.limit_ns = started_ns - _RACY_NS
        self.new: dict[bytes, _Entry] = {}
        try:
            with open(self.path, "rb", buffering=0) as file:
                self.old = _decoder.decode(file.readall())
        except (OSError, msgspec.DecodeError):
            self.old = {}

    def known(self, relative: str, status: os.stat_result) -> str | None:
        """The digest of the file's content, if it is certain; remembered for the next time."""
        key = os.fsencode(relative)
        entry = self.old.get(key)
        if entry is None or entry[:4] != stamp(status):
            return None
        self.new[key] = entry
        return entry[4]

    def learn(self, relative: str, status: os.stat_result, digest: str) -> None:
        if status.st_mtime_ns < self.limit_ns and status.st_ctime_ns < self.limit_ns:
            self.new[os.fsencode(relative)] = (*stamp(status), digest)

    def save(self) -> None:
        if self.new == self.old:
            return
        try:
            write_bytes(self.path, msgspec.msgpack.encode(self.new))
        except OSError:
            pass


def stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
