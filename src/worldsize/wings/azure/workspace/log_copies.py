"""How far the logs of a job were read into its run's directory, and what was made of them there."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from worldsize.common.atomic_files import storage_error
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.workspace.mirror_files import LogState, MirroredFiles


class LogCopies(ABC):
    """Reads logs on from where they were read to. Several clients may do it at once. `umask`: the run's."""

    def __init__(self, paths: RunPaths, umask: int) -> None:
        self._paths = paths
        self._umask = umask

    def offset(self, log_name: str, size: int | None = None) -> int:
        """From which byte on the log is to be read. `size`: how long it is now; one that is shorter than what was read
        has been replaced, and is read from its start. StorageError; ValueError for what is no log of the run."""
        with self._locked(log_name) as files:
            state = files.load()
            if size is not None and size < state.offset:
                files.save(LogState())
                return 0
            return state.offset

    def apply(self, log_name: str, start: int, data: bytes) -> int:
        """Take bytes of the log, from its byte `start` on, and write what they carry; return `offset`. What was read
        before is skipped, and nothing is done where bytes between are missing. A line without its end may be left to be
        read again. Raises as `offset`."""
        with self._locked(log_name) as files:
            state = files.load()
            skipped = state.offset - start
            new = data[skipped:] if skipped >= 0 else b""
            taken = self._take(log_name, files, state, new)
            if taken:
                files.write(state._replace(offset=state.offset + taken))
            return state.offset + taken

    @abstractmethod
    def _take(self, log_name: str, files: MirroredFiles, state: LogState, new: bytes) -> int:
        """Have `files` take what the new bytes carry. Returns how many of them are done with."""

    @abstractmethod
    def _node_rank(self, log_name: str) -> int:
        """Return the node that the log belongs to. ValueError for what is no log of the run."""

    @contextmanager
    def _locked(self, log_name: str) -> Iterator[MirroredFiles]:
        """The files that the log is read into, for this process alone."""
        node_rank = self._node_rank(log_name)
        place = os.path.join(self._paths.root, "relay")
        try:
            os.makedirs(place, 0o700, exist_ok=True)
            lock = os.open(os.path.join(place, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield MirroredFiles(self._paths, node_rank, os.path.basename(log_name), self._umask)
            finally:
                os.close(lock)
        except OSError as error:
            raise storage_error(error, error.filename or self._paths.root) from None
