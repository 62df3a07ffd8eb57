"""Files and folders on object stores and other services, read through fsspec, such as abfss, wasbs, s3 and gs.

fsspec and the packages that it needs for a service are not part of worldsize: the extras `data`, `s3` and `gs` install
them. Credentials are read by the service's own package, from its usual variables and files.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from worldsize.errors import UsageError, WorldsizeError
from worldsize.extras import missing_package_error
from worldsize.jobspec.reading.nearest import nearest_word
from worldsize.trust.directories import make_directories
from worldsize.wings.staging.http import Tick, display_url, refuse_unknown_host

_WASB = re.compile(r"wasbs?://([^@/]+)@([^./]+)\.blob\.([^/]+)(/.*)?$")
_MARKS = ("etag", "ETag", "e_tag", "md5", "content_md5", "generation", "last_modified", "LastModified", "mtime")
_SERVICE_ERRORS = (
    ("azure.core.exceptions", "AzureError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("gcsfs.retry", "HttpError"),
    ("aiohttp", "ClientError"),
)
"""The errors that the services' own packages raise in addition to OSError and ValueError."""


_AZURES = "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
_PACKAGES = {
    **dict.fromkeys(("abfs", "abfss", "az", "wasb", "wasbs"), ("adlfs", "data")),
    **dict.fromkeys(("s3", "s3a"), ("s3fs", "s3")),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs", "gs")),
}
"""The package with which fsspec reads a scheme, and the extra of worldsize that installs both, by scheme."""


def find_missing_support(uri: str) -> UsageError | None:
    """Return an error that states which package must be installed, or what must be fixed in the URI, before `uri` can
    be fetched with fsspec; None if nothing. Only this Python installation is examined."""
    written = urlsplit(uri).scheme
    package, extra = _PACKAGES.get(written, ("fsspec", "data"))
    try:
        import fsspec
    except ImportError:
        return _missing_package(written, "fsspec", extra)
    protocol = urlsplit(_to_adlfs_address(uri)).scheme
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        if written in _PACKAGES:
            return _missing_package(written, package, extra)
        return UsageError(f"{written}:// cannot be read: {_first_line(error)}", None, "install that package")
    except AttributeError:  # adl://, which adlfs still lists but no longer implements
        return UsageError(f"{written}:// is no longer supported", None, f"write {_AZURES}")
    except ValueError:
        if written in _PACKAGES:
            return UsageError(f"{written}:// needs a container and an account", None, f"write {_AZURES}")
        near = nearest_word(written, (*_PACKAGES, "https"), cutoff=0.75)
        hint = f"did you mean {near}://?" if near else "download it, and name the local path"
        return UsageError(f"fsspec does not know {written}://", None, hint)
    return None


def _missing_package(scheme: str, package: str, extra: str) -> UsageError:
    return missing_package_error(f"reading {scheme}://", package, extra)


class RemoteContent(NamedTuple):
    """The content of a URI: `files` contains the files below it with their sizes ("" for a single file), `mark` is a
    text that changes when they do."""

    folder: bool
    files: Mapping[str, int]
    mark: str


class RemoteFiles:
    """The file system of a URI. Methods raise UsageError if it cannot be used or does not exist, WorldsizeError for
    other failures."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        lacks = find_missing_support(uri)
        if lacks:
            raise UsageError(lacks.what, display_url(uri), lacks.hint)
        import logging

        from fsspec import url_to_fs

        logging.getLogger("azure").addHandler(logging.NullHandler())  # worldsize reports its errors in one sentence
        try:
            self._fs, self._path = url_to_fs(_to_adlfs_address(uri), skip_instance_cache=True)
        except _caught_errors(ValueError) as error:
            raise UsageError(f"cannot be used: {_first_line(error)}", display_url(uri)) from None

    def list_content(self) -> RemoteContent:
        try:
            info = self._fs.info(self._path)
            if info["type"] != "directory":
                return RemoteContent(False, {"": int(info.get("size") or 0)}, _mark(info))
            listed = self._fs.find(self._path, detail=True)
        except FileNotFoundError:
            raise UsageError("no such file or folder", display_url(self._uri), "correct the address") from None
        except _caught_errors(OSError, ValueError) as error:
            raise self._fetch_error(error) from None
        top = info["name"].rstrip("/") + "/"
        files = {name[len(top) :]: each for name, each in listed.items() if name.startswith(top)}
        if not files:
            raise UsageError("no such file or folder, or an empty one", display_url(self._uri), "correct the address")
        marks = [f"{name} {_mark(each)}" for name, each in sorted(files.items())]
        return RemoteContent(True, {name: int(each.get("size") or 0) for name, each in files.items()}, "\n".join(marks))

    def fetch(self, found: RemoteContent, target: str, tick: Tick) -> None:
        """Fetch the content `found`, as `list_content` returns it, into the file `target`, or, if it is a folder, into
        the folder `target`, which is created. `tick` is called with the bytes that are here and the total."""
        from fsspec.callbacks import Callback

        total, done = sum(found.files.values()), 0

        class Progress(Callback):  # type: ignore[misc]
            def call(self, *_: Any, **__: Any) -> None:
                tick(done + self.value, total)

        for name in found.files:
            path = os.path.join(target, *name.split("/")) if name else target
            _check_inside(path, target)
            make_directories(os.path.dirname(path))
            try:
                remote = f"{self._path.rstrip('/')}/{name}" if name else self._path
                self._fs.get_file(remote, path, callback=Progress())
            except _caught_errors(OSError, ValueError) as error:
                raise self._fetch_error(error) from None
            done += os.path.getsize(path)
            tick(done, total)

    def _fetch_error(self, error: BaseException) -> WorldsizeError:
        """Return the UsageError or WorldsizeError that describes `error`, the error of a failed request to an object
        store. If the service's host is unknown, the error states that: libraries may report it as a problem of
        credentials."""
        address = service_address(self._uri, os.environ)
        if address:
            try:
                socket.getaddrinfo(urlsplit(address).hostname, None)
            except OSError as unknown:
                try:
                    refuse_unknown_host(unknown, address)
                except UsageError as found:
                    return UsageError(found.what, display_url(self._uri), found.hint)
        if isinstance(error, PermissionError):
            return UsageError(
                f"permission denied: {_first_line(error)}", display_url(self._uri), "are its variables set?"
            )
        return WorldsizeError(f"cannot be fetched: {_first_line(error)}", display_url(self._uri))


def service_address(uri: str, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the object store's service for `uri`, if the URI (abfss) or a variable in `environ` (s3) names
    it; None otherwise."""
    parts = urlsplit(_to_adlfs_address(uri))
    if parts.scheme in ("abfs", "abfss") and parts.username and "." in (parts.hostname or ""):
        return f"https://{parts.hostname}"
    if parts.scheme == "s3":
        return environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    return None


def _to_adlfs_address(uri: str) -> str:
    """Return the URI of an object store with wasb, the older name of Azure's storage, replaced:
    CONTAINER@ACCOUNT.blob.… becomes CONTAINER@ACCOUNT.dfs.… of abfss. Other URIs are unchanged."""
    return _WASB.sub(r"abfss://\1@\2.dfs.\3\4", uri)


def _mark(info: Mapping[str, Any]) -> str:
    return "{} {}".format(info.get("size"), next((str(info[name]) for name in _MARKS if info.get(name)), ""))


def _check_inside(path: str, target: str) -> None:
    if os.path.commonpath((os.path.abspath(path), os.path.abspath(target))) != os.path.abspath(target):
        raise UsageError(f"contains a file whose name leads outside it: {path}")


def _caught_errors(*own: type[BaseException]) -> tuple[type[BaseException], ...]:
    """Return the exception classes `own`, and those that the object stores' own packages may raise, as far as these are
    loaded."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in _SERVICE_ERRORS)
    return (*own, *(each for each in found if each is not None))


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
