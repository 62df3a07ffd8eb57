"""Transfer of files to and from a container of Azure's Blob Storage: eight requests at once, without files that already
exist there.

A blob that worldsize has written has the digest of its content as metadata, which is set together with the content once
that has been verified. Therefore a blob with a digest is complete, and an interrupted upload continues where it ended.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

from worldsize.common.atomic_files import open_regular_file, printable_text, try_unlink
from worldsize.errors import SnapshotError, StorageError, WorldsizeError
from worldsize.extras import require_packages
from worldsize.wings.azure.storage.blob_errors import blob_error, hide_signatures
from worldsize.wings.azure.storage.content import ContentFile

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_BLOCK = 8 << 20
_MOST_BLOCKS = 50_000
_CONNECTIONS = 8
_DIGEST = "sha256"
_UNCERTAIN = 2.0
"""Age in seconds from which a blob's time, which is in whole seconds, distinguishes its content from a later one."""

_RETRIES = {"retry_total": 4, "initial_backoff": 1, "increment_base": 2, "random_jitter_range": 1}

Progress = Callable[[int, int], None]
"""Callback that is called in the caller's thread with the number of transferred bytes and the total."""

Answer = TypeVar("Answer")

Notice = Callable[[str], None]
"""Callback that is called with a text about what an upload leaves out."""


class Blob(NamedTuple):
    """A blob in a container. `size` is in bytes. `modified` is when it was written, in seconds since the epoch."""

    name: str
    size: int
    modified: float


def no_progress(done: int, total: int) -> None:
    """Do nothing: the `Progress` for callers that show none."""


def no_notice(text: str) -> None:
    """Do nothing: the `Notice` for callers that show none."""


class Container:
    """A container of blobs, given by its address.

    url         without a signature
    credential  a signature (the query of a signed address), the account's key, or a credential of azure-identity
    renew       returns a new signature; called when the present one is refused
    """

    def __init__(self, url: str, credential: Any, renew: Callable[[], str] | None = None) -> None:
        self.url = url
        self._credential = credential
        self._renew = renew
        self._open: ContainerClient | None = None

    def __repr__(self) -> str:
        return f"Container({self.url!r})"

    def __enter__(self) -> Container:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def upload(
        self, files: Sequence[ContentFile], prefix: str, progress: Progress = no_progress, new: bool = False
    ) -> int:
        """Upload each of `files` to the blob PREFIX/NAME of the container unless its content is already there. Return
        how many bytes were sent. Blobs of other names stay. With `new`, the place is known to be empty, and is not
        listed, for which the signature may not be sufficient. Raise SnapshotError if a file has changed since its
        digest was computed; MissingResource, SubmitAgain, SubmitRejected, ConfigError."""
        self._client()
        there = {} if new else {blob.name: _written(blob) for blob in self._list(prefix + "/")}
        wanted = [file for file in files if there.get(f"{prefix}/{file.name}") != (file.digest, file.size)]
        total, sent = sum(file.size for file in files), 0
        before = total - sum(file.size for file in wanted)
        progress(before, total)
        pool = ThreadPoolExecutor(_CONNECTIONS)
        try:
            for size in self._put_all(pool, wanted, prefix):
                sent += size
                progress(before + sent, total)
        finally:
            pool.shutdown(cancel_futures=True)
        return sent

    def find(self, path: str) -> dict[str, Blob]:
        """Return the blobs of the container at `path` and below, as a sorted mapping. The keys are the rest of their
        names: "" for the blob of that name itself, otherwise a text that begins with a slash. Names that would lead out
        of a folder are left out. Raise the errors of `upload`."""
        path = path.strip("/")
        blobs = [blob for blob in self._list(path) if not _is_folder(blob)]
        found = {blob.name[len(path) :] if path else f"/{blob.name}": blob for blob in blobs}
        return {
            name: Blob(blob.name, blob.size, blob.last_modified.timestamp())
            for name, blob in sorted(found.items())
            if not name or (name.startswith("/") and _leads_inside(name[1:]))
        }

    def chunks(self, name: str, offset: int = 0) -> Iterator[bytes]:
        """Yield the content of the blob `name` from the byte `offset` on, in pieces, as it arrives. Raise the errors of
        `upload`."""
        client = self._client().get_blob_client(name)
        options: dict[str, Any] = {"offset": offset} if offset else {}
        stream = iter(self._call(lambda: client.download_blob(**options)).chunks())
        while (chunk := self._call(lambda: next(stream, None))) is not None:
            yield chunk

    def download(self, wanted: Mapping[str, Blob], progress: Progress = no_progress) -> None:
        """Download the blobs of `wanted`, a mapping of local path to Blob, to these paths, with their modification
        times. Each file is written completely or not at all. A file with the blob's size and time is kept. Raise
        StorageError if a file cannot be written; else the errors of `upload`."""
        total = sum(blob.size for blob in wanted.values())
        missing = {path: blob for path, blob in wanted.items() if not _is_there(path, blob)}
        done = total - sum(blob.size for blob in missing.values())
        progress(done, total)
        pool = ThreadPoolExecutor(_CONNECTIONS)
        try:
            futures = {pool.submit(self._fetch, blob, path): blob for path, blob in missing.items()}
            for future in as_completed(futures):
                future.result()
                done += futures[future].size
                progress(done, total)
        finally:
            pool.shutdown(cancel_futures=True)

    def _client(self) -> ContainerClient:
        if self._open is None:
            require_packages("Azure's storage", "azure", "azure.storage.blob")
            from azure.core.credentials import AzureSasCredential
            from azure.storage.blob import ContainerClient

            hide_signatures()
            if isinstance(self._credential, str) and "sig=" in self._credential:
                self._credential = AzureSasCredential(self._credential)
            options: dict[str, Any] = dict(_RETRIES)
            self._open = ContainerClient.from_container_url(self.url, credential=self._credential, **options)
        return self._open

    def _call(self, ask: Callable[[], Answer]) -> Answer:
        """Return the result of `ask`, a call of Azure's storage client. If the signature is refused, it is renewed and
        the call is repeated once. Raise the error of `blob_error` if Azure's client fails."""
        from azure.core.exceptions import AzureError, HttpResponseError

        try:
            try:
                return ask()
            except HttpResponseError as error:
                if error.status_code != 403 or self._renew is None:
                    raise
            self._credential.update(self._renew())
            return ask()
        except AzureError as error:
            raise blob_error(error, self.url) from None

    def _list(self, prefix: str) -> list[Any]:
        client = self._client()
        return self._call(lambda: list(client.list_blobs(name_starts_with=prefix, include=["metadata"])))

    def _put_all(self, pool: ThreadPoolExecutor, files: Sequence[ContentFile], prefix: str) -> Iterator[int]:
        """Upload `files` to PREFIX/NAME: small files in parallel, then large ones one by one, with their blocks in
        parallel. Yield the number of bytes of each piece that was sent."""
        small = [file for file in files if file.size <= _BLOCK]
        futures = {pool.submit(self._put, file, f"{prefix}/{file.name}"): file for file in small}
        for future in as_completed(futures):
            future.result()
            yield futures[future].size
        for file in files:
            if file.size > _BLOCK:
                yield from self._put_blocks(pool, file, f"{prefix}/{file.name}")

    def _put(self, file: ContentFile, name: str) -> None:
        with _open_source(file) as source:
            data = source.read(file.size + 1)
        if hashlib.sha256(data).hexdigest() != file.digest:
            raise _changed(file)
        client = self._client()
        self._call(lambda: client.upload_blob(name, data, overwrite=True, metadata={_DIGEST: file.digest}))

    def _put_blocks(self, pool: ThreadPoolExecutor, file: ContentFile, name: str) -> Iterator[int]:
        """Upload a large file to the blob `name` in blocks, and yield the number of bytes of each. The blob exists only
        once all blocks are sent and their content matches the file's digest."""
        from azure.storage.blob import BlobBlock

        size = max(_BLOCK, -(-file.size // _MOST_BLOCKS))
        blob, digest, blocks = self._client().get_blob_client(name), hashlib.sha256(), 0

        def stage(number: int, data: bytes) -> int:
            self._call(lambda: blob.stage_block(f"{number:08d}", data))
            return len(data)

        with _open_source(file) as source:
            while pieces := [data for data in (source.read(size) for _ in range(_CONNECTIONS)) if data]:
                for data in pieces:
                    digest.update(data)
                if blocks + len(pieces) > _MOST_BLOCKS:
                    raise _changed(file)
                yield from pool.map(stage, range(blocks, blocks + len(pieces)), pieces)
                blocks += len(pieces)
        if digest.hexdigest() != file.digest:
            raise _changed(file)
        order = [BlobBlock(f"{number:08d}") for number in range(blocks)]
        try:
            self._call(lambda: blob.commit_block_list(order, metadata={_DIGEST: file.digest}))
        except WorldsizeError:  # another client may have uploaded the same file, which removes the blocks
            if not self._has(name, file):
                raise

    def _has(self, name: str, file: ContentFile) -> bool:
        blob = self._client().get_blob_client(name)
        try:
            return _written(self._call(blob.get_blob_properties)) == (file.digest, file.size)
        except WorldsizeError:
            return False

    def _fetch(self, blob: Blob, path: str) -> None:
        partial = f"{path}.part-{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(partial, "wb") as file:
                for chunk in self.chunks(blob.name):
                    file.write(chunk)
            if time.time() - blob.modified > _UNCERTAIN:
                os.utime(partial, (blob.modified, blob.modified))
            os.replace(partial, path)
        except OSError as error:
            text = f"cannot write it: {error.strerror or error}"
            raise StorageError(text, printable_text(path), "free space, or name another folder") from None
        finally:
            try_unlink(partial)


def _is_there(path: str, blob: Blob) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (status.st_size, status.st_mtime) == (blob.size, blob.modified)


def _written(blob: Any) -> tuple[str, int]:
    """Return the digest and the size of a blob, where the digest is the metadata that worldsize has set; "" as the
    digest of a blob that worldsize has not written."""
    return (blob.metadata or {}).get(_DIGEST, ""), blob.size


def _is_folder(blob: Any) -> bool:
    """Return whether a blob is empty and only represents a folder, as in accounts with a hierarchical namespace."""
    return blob.name.endswith("/") or (blob.metadata or {}).get("hdi_isfolder") == "true"


def _leads_inside(name: str) -> bool:
    return "\0" not in name and all(each not in ("", ".", "..") for each in name.split("/"))


def _open_source(file: ContentFile) -> BinaryIO:
    try:
        return open(open_regular_file(file.path), "rb")
    except OSError:
        raise _changed(file) from None


def _changed(file: ContentFile) -> SnapshotError:
    return SnapshotError("it has changed while it was uploaded", printable_text(file.path), "submit again")
