"""Reading of the logs of a job into its run's directory: the positions up to which they were read, and the files made
from them."""

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
    """A reader of the logs of an Azure ML job into the run directory, which continues each log where it was last read.
    Several clients may use it at once. `umask` is that of the run."""

    def __init__(self, paths: RunPaths, umask: int) -> None:
        self._paths = paths
        self._umask = umask

    def offset(self, log_name: str, size: int | None = None) -> int:
        """Return the byte from which the job's log `log_name` must be read next. `size` is its present length: a log
        that is shorter than what was read has been replaced, and is read from its start. Raise StorageError; ValueError
        if it is not a log of the run."""
        with self._locked(log_name) as files:
            state = files.load()
            if size is not None and size < state.offset:
                files.save(LogState())
                return 0
            return state.offset

    def apply(self, log_name: str, start: int, data: bytes) -> int:
        """Process `data`, bytes of the job's log `log_name` from its byte `start` on, and write the files that they
        contain into the run directory. Return the new `offset`. Bytes that were read before are skipped, and nothing is
        done if bytes before `start` are missing. A line without its line end may be left to be read again. Raise the
        errors of `offset`."""
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
        """Pass the contents of the log's new bytes `new` to `files`, the node's files in the run directory. Return how
        many bytes are finished."""

    @abstractmethod
    def _node_rank(self, log_name: str) -> int:
        """Return the rank of the node to which the job's log `log_name` belongs. Raise ValueError if it is not a log of
        the run."""

    @contextmanager
    def _locked(self, log_name: str) -> Iterator[MirroredFiles]:
        """Lock the run's copies of logs for this process while the context is entered, and yield the files into which
        the log `log_name` is read. Raise StorageError."""
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
