"""The records of an agent in the run directory: its events as they happen, and its exit record at the end."""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Mapping

from worldsize.agent.posix.processes import host_name
from worldsize.common.atomic_files import write_all, write_bytes, write_json
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import ExitRecord, Failure, Reason

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_GONE_ERRORS = (errno.ENOENT, errno.ESTALE)
_BLOCK = 4096
_BYTES_PER_RANK = 256


class NodeRecorder:
    """The writer of a node's events file, which no other process writes. A full disk is recorded in `full`, not raised.

    listener  called with the kind and the fields of each event that is written from now on
    """

    def __init__(self, paths: RunPaths, node_rank: int, ranks: int) -> None:
        self.full = False
        self.listener: Callable[[str, Mapping[str, Any]], None] | None = None
        self._file = -1
        self._root = paths.root
        self._cancel = paths.cancel
        self._record = paths.exit_record(node_rank)
        self._spare = self._record + ".spare"
        self._guard(lambda: self._open_events(paths.events(node_rank)))
        self._guard(lambda: write_bytes(self._spare, b"\n" * (_BLOCK + ranks * _BYTES_PER_RANK), private=True))

    def write_event(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"time": time.time(), "event": kind, **fields}, separators=(",", ":")) + "\n"
        if self._file >= 0:
            self._guard(lambda: write_all(self._file, line.encode()))
        if self.listener is not None:
            self.listener(kind, fields)

    def write_exit_record(self, record: ExitRecord) -> None:
        """Write the node's exit record to its file in the run directory, completely even on a full disk: it uses the
        bytes that were reserved at the start."""
        self._guard(lambda: write_json(self._record, record.to_json(), reserved=self._spare))

    def is_deleted(self) -> bool:
        """Return whether the run directory was removed while this process uses it."""
        try:
            return os.fstat(self._file).st_nlink == 0
        except OSError:
            return not self.full

    def is_replaced(self) -> bool:
        """Return whether the run directory was removed and another directory has its name. Ranks that start from now on
        would load the files of that directory."""
        return self.is_deleted() and os.path.lexists(self._root)

    def is_cancel_requested(self) -> bool:
        """Return whether the run's cancellation was requested. The node may not have received the signal yet."""
        return os.path.exists(self._cancel)

    def _open_events(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def _guard(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            if error.errno in DISK_FULL_ERRORS:
                self.full = True
            elif error.errno not in _GONE_ERRORS:
                raise


def note(text: str) -> None:
    """Write the line `text` to standard error, which is this process's own log. Ignore a failure, because the log may
    be on the full disk that the line reports."""
    try:
        print(text, file=sys.stderr)
    except OSError:  # then no message can be written
        pass


def write_or_note(write: Callable[[], object], trouble: str) -> None:
    """Call `write`. If it raises OSError, write `trouble` and the reason to this process's log."""
    try:
        write()
    except OSError as error:
        note(f"{trouble}: {error}")


def write_unstarted_record(
    plan: Plan, paths: RunPaths, node_rank: int, what: str, reason: str | None = Reason.RENDEZVOUS, code: int = 1
) -> ExitRecord:
    """Write and return the exit record of a node that could not begin, with the failure message `what`. By default the
    `reason` is that the node has not met the other nodes; the reason None means that it was cancelled. Raise OSError.
    """
    now = time.time()
    failure = Failure(reason, what, node_rank, None, code, now) if reason else None
    stop = "failure" if failure else "cancel"
    record = ExitRecord(node_rank, host_name(), plan.attempt, now, now, (), stop, failure, code)
    write_json(paths.exit_record(node_rank), record.to_json())
    return record


def write_follower_record(paths: RunPaths, node_rank: int, head: ExitRecord) -> None:
    """Write the exit record of a node that could not begin because the head of its attempt has ended. The record has
    the same reason, failure and exit code as `head`, the head's record. Raise OSError."""
    now = time.time()
    record = ExitRecord(node_rank, host_name(), head.attempt, now, now, (), head.stop, head.failure, head.code)
    write_json(paths.exit_record(node_rank), record.to_json())


def is_disk_full(directory: str) -> bool:
    """Return whether the file system of `directory` has no room for another small file; False if it cannot be
    queried."""
    try:
        room = os.statvfs(directory)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < 2 * _BLOCK
