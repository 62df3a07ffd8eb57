"""A directory of fetched things: each made once, whole or not at all, by one process while others wait."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from worldsize.common.file_lock import acquire
from worldsize.common.named_tuple import Any, NamedTuple, Protocol
from worldsize.trust.directories import require_reliable_directory

_CHUNK = 4 << 20


class FetchedData(NamedTuple):
    """`path` is local; `sha256` of a file, or of the archive that a folder was; `mark` is what the server knows its
    state by; `fetched` is when (Unix seconds)."""

    uri: str
    path: str
    bytes: int
    sha256: str | None
    mark: str | None
    fetched: float


class TransferProgress(Protocol):
    """What a person may want to know meanwhile."""

    def notice(self, text: str, id: str = "") -> None:
        """Say something once; `id`: its kind."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """Note how many bytes are here; `total` 0: nobody knows of how many. Called often."""


class ContentStore:
    """The directory, and who is told. What lies there is never changed, and may be removed when nobody uses it.

    StorageError where somebody else could change it."""

    def __init__(self, directory: str, news: TransferProgress) -> None:
        self.directory = require_reliable_directory(directory)
        self._news = news

    def report_notice(self, text: str) -> None:
        self._news.notice(text, "fetch")

    def make(self, path: str, fill: Callable[[str], None], what: str) -> None:
        """Make the directory `path`, whole or not at all: one process makes it, others wait for it."""
        if os.path.isdir(path):
            return
        with self.hold_lock(path, what):
            if os.path.isdir(path):
                return
            from shutil import rmtree

            part = path + ".part"
            rmtree(part, ignore_errors=True)
            try:
                fill(part)
                os.rename(part, path)
            except BaseException:
                rmtree(part, ignore_errors=True)
                raise

    @contextmanager
    def hold_lock(self, path: str, what: str) -> Iterator[None]:
        """Hold the lock of `path`: one process at a time fetches the same."""
        lock = acquire(
            path + ".lock", lambda _: self._news.transfer(f"{what}: another worldsize process fetches it", 0, 0)
        )
        assert lock is not None
        try:
            yield
        finally:
            lock.release()


def file_digest(path: str, tick: Callable[[int, int], None] = lambda *_: None, digest: Any = None) -> str:
    """Return the sha256 of a file's content, or what another `digest` makes of it. `tick` is called with the bytes that
    are read and those of all."""
    found, done, total = digest or hashlib.sha256(), 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            found.update(data)
            done += len(data)
            tick(done, total)
    return str(found.hexdigest())
