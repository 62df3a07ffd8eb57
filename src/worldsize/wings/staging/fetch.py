"""The download of data that a job names by URI into a directory that the nodes see. The data is kept there for the next
job.

    DIRECTORY/uris/KEY.json      the state of a URI at its last download; KEY.part: an interrupted download
    DIRECTORY/files/SHA256/NAME  files, by their content
    DIRECTORY/folders/KEY        archives unpacked, and folders

A file with a declared checksum that is here is not requested again. For any other file, the server is queried by its
etag or time, and the file is fetched if it has changed. The data is never changed, and may be removed when no run uses
it.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from worldsize.common.atomic_files import read_object, storage_error, try_unlink, write_json
from worldsize.common.numbers import bytes_text
from worldsize.errors import UsageError, WorldsizeError
from worldsize.store.content_store import ContentStore, FetchedData, file_digest
from worldsize.trust.directories import make_directories
from worldsize.wings.staging.archives import is_archive, unpack_archive
from worldsize.wings.staging.http import FileVersion, display_url, download
from worldsize.wings.staging.limits import SizeLimit, SizeLimitError, download_limit, unpack_limit

_WEB = ("http", "https")
_UNFIT = re.compile(r"[^\w.+-]")
_LONGEST = 100


def is_web(uri: str) -> bool:
    return urlsplit(uri).scheme.lower() in _WEB


def file_name(uri: str) -> str:
    """Return the local name for the file of a URI: the last part of its path, without unusual characters; "data" if
    nothing is left."""
    name = unquote(urlsplit(uri).path.rstrip("/").rpartition("/")[2])
    return _UNFIT.sub("_", name)[-_LONGEST:].lstrip(".") or "data"


class DataStore(ContentStore):
    """The directory of fetched data. Methods raise UsageError if a request is refused permanently or a checksum is
    wrong, WorldsizeError for errors that may be temporary, StorageError if files cannot be written."""

    def fetch(
        self, uri: str, folder: bool = False, sha256: str | None = None, what: str = "", max_size: int | None = None
    ) -> FetchedData:
        """Fetch the file or folder of a URI, or of a local path, or find the copy that is kept, and return its
        FetchedData. With `folder`, an archive is unpacked. `sha256` is the checksum that a file must have. `what` is
        the name of the data in messages. `max_size` limits the bytes that are fetched, and the content of an archive.
        """
        what = what or file_name(uri)
        limit = download_limit(max_size, display_url(uri))
        try:
            found = self._fetch_uri(uri, sha256, what, limit)
            if folder and "://" in uri and is_archive(file_name(uri)):
                return self.unpack(found, file_name(uri), what, sha256 is not None, max_size)
            return found
        except OSError as error:
            raise storage_error(error, error.filename or self.directory) from None

    def _fetch_uri(self, uri: str, sha256: str | None, what: str, limit: SizeLimit) -> FetchedData:
        if "://" not in uri:
            found = self._copy_from_disk(uri, sha256, what, limit)
        elif is_web(uri):
            if sha256 is None and _is_open_to_others(uri):
                words = "%s: %s is fetched by http, where other servers can answer: use https, or set its sha256"
                self.report_notice(words % (what, display_url(uri)))
            found = self._fetch_from_web(uri, sha256, what, limit)
        else:
            found = self._fetch_from_store(uri, sha256, what, limit)
        limit.check(found.bytes)
        return found

    def verify(self, path: str, sha256: str, what: str) -> None:
        """Check the local file `path` against its checksum `sha256`. The file is read only if it has changed since the
        last check. Raise UsageError if the checksum differs."""
        status = os.stat(path)
        state = self._state_path(os.path.abspath(path))
        known = {
            "size": status.st_size,
            "mtime_ns": status.st_mtime_ns,
            "ctime_ns": status.st_ctime_ns,  # the file's owner can set mtime to any value
            "inode": status.st_ino,
        }
        before = read_object(state)
        if all(before.get(name) == value for name, value in known.items()):
            digest = before["sha256"]
        else:
            digest = self.digest(path, what)
            _try_to_write(state, {**known, "sha256": digest})
        _compare(digest, sha256, path)

    def _copy_from_disk(self, path: str, sha256: str | None, what: str, limit: SizeLimit) -> FetchedData:
        """Copy the file `path` of this machine in its present state into the store, unless the store has the same
        content, and return its FetchedData."""
        if not os.path.isfile(path):
            raise UsageError("is not a file", path, "correct the path; a directory can be an input")
        limit.check(os.path.getsize(path))
        digest = self.digest(path, what)
        _compare(digest, sha256, path)
        kept = os.path.join(self.directory, "files", digest, file_name(path))
        if not os.path.exists(kept):
            from shutil import copyfile

            with self.hold_lock(kept, what):
                copyfile(path, kept + ".part")  # it may have been written since it was read
                self._keep_checked(kept + ".part", file_name(path), digest, what, path)
        return FetchedData(path, kept, os.path.getsize(kept), digest, None, time.time())

    def _fetch_from_web(self, uri: str, sha256: str | None, what: str, limit: SizeLimit) -> FetchedData:
        state, name = self._state_path(uri), file_name(uri)
        if sha256:
            path = os.path.join(self.directory, "files", sha256.lower(), name)
            if os.path.isfile(path):
                return FetchedData(
                    display_url(uri), path, os.path.getsize(path), sha256.lower(), None, os.path.getmtime(path)
                )
        with self.hold_lock(state, what):
            known = _read_valid_state(state)
            ask = FileVersion(known["etag"], known["modified"]) if known else None
            part = state[: -len(".json")] + ".part"
            try:
                tick = self._make_tick(what, display_url(uri), limit)
                version = download(uri, part, ask, tick, known_content=sha256 is not None)
            except WorldsizeError as error:
                if isinstance(error, SizeLimitError):
                    try_unlink(part)
                    try_unlink(part + ".json")
                if isinstance(error, UsageError) or not known:
                    raise
                when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(known["fetched"]))
                self.report_notice(f"{what}: {error.what}; the copy of {when} is used")
                version = None
            if version is None:
                assert known is not None
                _compare(known["sha256"], sha256, display_url(uri))
                return _to_fetched_data(known)
            digest, path = self._keep_checked(part, name, sha256, what, display_url(uri))
            found = FetchedData(display_url(uri), path, os.path.getsize(path), digest, version.etag, time.time())
            write_json(state, {**found._asdict(), "etag": version.etag, "modified": version.modified})
            return found

    def _fetch_from_store(self, uri: str, sha256: str | None, what: str, limit: SizeLimit) -> FetchedData:
        from worldsize.wings.staging.object_stores import RemoteFiles

        state = self._state_path(uri)
        with self.hold_lock(state, what):
            store = RemoteFiles(uri)
            found = store.list_content()
            mark = hashlib.sha256(found.mark.encode()).hexdigest()[:32]
            known = _read_valid_state(state)
            if known is None or known["mark"] != mark:
                limit.check(sum(found.files.values()))
                known = self._transfer_from_store(store, found, uri, mark, what, limit)
                write_json(state, known)
        if sha256:
            if found.folder:
                raise UsageError("is a folder, and a checksum is for a file", display_url(uri), "remove sha256")
            _compare(known["sha256"], sha256, display_url(uri))
        return _to_fetched_data(known)

    def _transfer_from_store(
        self, store: Any, found: Any, uri: str, mark: str, what: str, limit: SizeLimit
    ) -> dict[str, Any]:
        tick, size, digest = self._make_tick(what, display_url(uri), limit), sum(found.files.values()), None
        if found.folder:
            path = os.path.join(self.directory, "folders", hashlib.sha256((uri + mark).encode()).hexdigest()[:32])
            self.make(path, lambda part: store.fetch(found, part, tick), what)
        else:
            part = self._state_path(uri)[: -len(".json")] + ".part"
            store.fetch(found, part, tick)
            digest, path = self._keep_checked(part, file_name(uri), None, what, display_url(uri))
        return dict(FetchedData(display_url(uri), path, size, digest, mark, time.time())._asdict())

    def _keep_checked(self, part: str, name: str, sha256: str | None, what: str, where: str) -> tuple[str, str]:
        """Move the fetched file `part` to its place by content in the store. Return its checksum and its new path. If
        the checksum is not `sha256` (unless that is None), remove the file and raise UsageError."""
        digest = self.digest(part, what)
        if sha256 and digest != sha256.lower():
            os.unlink(part)
        _compare(digest, sha256, where)
        return digest, self._keep(part, digest, name)

    def unpack(
        self, found: FetchedData, name: str, what: str, known: bool = False, max_size: int | None = None
    ) -> FetchedData:
        """Unpack a fetched archive, whose name is `name`, unless it is unpacked already, and return its FetchedData
        with the path of the folder. `known` means that its checksum was given. `max_size` limits its content."""
        path = os.path.join(self.directory, "folders", (found.sha256 or "")[:32])
        limit = unpack_limit(found.bytes, known, max_size, found.uri)
        self.make(path, lambda part: unpack_archive(found.path, name, part, found.uri, limit), what)
        return found._replace(path=path)

    def report_transfer(self, what: str, done: int, total: int) -> None:
        self._news.transfer(what, done, total)

    def _keep(self, part: str, digest: str, name: str) -> str:
        path = os.path.join(self.directory, "files", digest, name)
        make_directories(os.path.dirname(path))
        os.chmod(part, 0o444)
        os.replace(part, path)
        return path

    def digest(self, path: str, what: str) -> str:
        return file_digest(path, lambda done, total: self.report_transfer(f"{what}: checksum", done, total))

    def _state_path(self, uri: str) -> str:
        return os.path.join(self.directory, "uris", hashlib.sha256(uri.encode()).hexdigest()[:32] + ".json")

    def _make_tick(self, what: str, uri: str, limit: SizeLimit) -> Callable[[int, int], None]:
        told = False

        def tick(done: int, total: int) -> None:
            nonlocal told
            limit.check(max(done, total))
            if not told:
                told = True
                self.report_notice("{}: fetching {}{}".format(what, uri, f" ({bytes_text(total)})" if total else ""))
            self.report_transfer(what, done, total)

        return tick


def _is_open_to_others(uri: str) -> bool:
    """Return whether another machine could answer a request for `uri` instead of the server: the URI uses http, and its
    host is not this machine."""
    parts = urlsplit(uri)
    host = parts.hostname or ""
    return parts.scheme.lower() == "http" and host not in ("localhost", "::1") and not host.startswith("127.")


def _try_to_write(state: str, value: dict[str, Any]) -> None:
    try:
        make_directories(os.path.dirname(state))
        write_json(state, value)
    except OSError:
        pass  # the file is read again next time


def _read_valid_state(state: str) -> dict[str, Any] | None:
    """Read the file `state`, which records the last download of a URI, and return its values; None if there is none, or
    the data is no longer here."""
    value = read_object(state)
    return value if os.path.exists(str(value.get("path", ""))) else None


def _to_fetched_data(value: dict[str, Any]) -> FetchedData:
    return FetchedData(*(value[name] for name in FetchedData._fields))


def _compare(digest: str, wanted: str | None, where: str) -> None:
    if wanted and digest != wanted.lower():
        hint = "it is another file, or was changed in transit: correct sha256 if you trust it"
        raise UsageError(f"its sha256 is {digest}, and not {wanted.lower()}", where, hint)
