"""What an agent leaves in the run directory: its events as they happen, and its exit record at the end."""

from __future__ import annotations

import errno
import json
import os
import time
from typing import Any

from worldsize.plan.files import write_json
from worldsize.plan.paths import RunPaths
from worldsize.state.records import ExitRecord

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SPARE_BYTES = 4096


class Report:
    """One node's events file, of which we are the only writer. A full disk is remembered in `full`, not raised."""

    def __init__(self, paths: RunPaths, node_rank: int) -> None:
        self.paths = paths
        self.node_rank = node_rank
        self.full = False
        self._file = os.open(paths.events(node_rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._spare = paths.exit_record(node_rank) + ".spare"
        self._reserve()

    def event(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"time": time.time(), "event": kind, **fields}, separators=(",", ":")) + "\n"
        self._guard(lambda: os.write(self._file, line.encode()))

    def exit(self, record: ExitRecord) -> None:
        """The record is written even on a full disk: into the blocks that were reserved at the start."""

        def write() -> None:
            if os.path.exists(self._spare):
                os.unlink(self._spare)
            write_json(self.paths.exit_record(self.node_rank), record.to_json())

        self._guard(write)

    def deleted(self) -> bool:
        """Whether the run directory was removed under us."""
        try:
            return os.fstat(self._file).st_nlink == 0
        except OSError:
            return True

    def _reserve(self) -> None:
        def write() -> None:
            with open(self._spare, "wb") as file:
                file.write(b"\n" * _SPARE_BYTES)

        self._guard(write)

    def _guard(self, write: Any) -> None:
        try:
            write()
        except OSError as error:
            if error.errno in _FULL:
                self.full = True
            elif error.errno not in (errno.ENOENT, errno.ESTALE):
                raise


def disk_full(directory: str) -> bool:
    """Whether `directory`'s file system has no room for another small file."""
    try:
        room = os.statvfs(directory)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 2 * _SPARE_BYTES
