"""A directory of fetched data. Each item is made once, completely or not at all, by one process while others wait."""

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
    """An item of fetched data. `path` is local. `sha256` is that of a file, or of the archive from which a folder was
    unpacked. `mark` is the server's identifier of the item's version. `fetched` is the time of the fetch (Unix
    seconds)."""

    uri: str
    path: str
    bytes: int
    sha256: str | None
    mark: str | None
    fetched: float


class TransferProgress(Protocol):
    """The interface by which a fetch reports its progress."""

    def notice(self, text: str, id: str = "") -> None:
        """Report the notice `text` about the transfer once. `id` is its kind."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """Report how many bytes (`done` of `total`) of the data `what` have been transferred. `total` is 0 if it is not
        known. Called often."""


class ContentStore:
    """The directory of fetched data, and the object `news` to which progress is reported. The items of the directory
    are never changed, and may be removed when no process uses them.

    Raise StorageError if another user could change the directory.
    """

    def __init__(self, directory: str, news: TransferProgress) -> None:
        self.directory = require_reliable_directory(directory)
        self._news = news

    def report_notice(self, text: str) -> None:
        self._news.notice(text, "fetch")

    def make(self, path: str, fill: Callable[[str], None], what: str) -> None:
        """Make the item `path`, a directory of fetched data, completely or not at all, unless it exists. One process
        makes it by calling `fill` with a temporary path, and other processes wait for it. `what` names the item in
        progress reports."""
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
        """Hold the file lock of the item `path` while the context is entered, so that only one process at a time
        fetches the same data. A waiting process reports that, with the name `what`."""
        lock = acquire(
            path + ".lock", lambda _: self._news.transfer(f"{what}: another worldsize process fetches it", 0, 0)
        )
        assert lock is not None
        try:
            yield
        finally:
            lock.release()


def file_digest(path: str, tick: Callable[[int, int], None] = lambda *_: None, digest: Any = None) -> str:
    """Return the SHA-256 of a file's content in hexadecimal, or the digest of another hash object, `digest`, that was
    updated with it. `tick` is called with the number of bytes that were read and the total."""
    found, done, total = digest or hashlib.sha256(), 0, os.path.getsize(path)
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            found.update(data)
            done += len(data)
            tick(done, total)
    return str(found.hexdigest())
