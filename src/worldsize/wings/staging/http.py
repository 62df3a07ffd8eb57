"""Downloads by http and https. An interrupted download is continued, and repeated only if the file has changed.

No part of a URL that could be a secret is ever shown: neither user and password nor the part after a `?`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from worldsize.common.atomic_files import read_json, write_json
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError, WorldsizeError
from worldsize.trust.secrets import mask_tokens_in_paths
from worldsize.version import VERSION

_T = TypeVar("_T")
_EAI_NODATA = -5
"""An error number of the C library for which Python does not have a name on every system: the host has a name and no
address."""

Tick = Callable[[int, int], None]
"""A function that is called with the bytes that are here and those of the whole file, 0 if the server did not report
them."""

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds between attempts without progress. They start again from the first when more bytes than ever before are
here."""

_TIMEOUT = 30.0
_CHUNK = 1 << 20
_RETRYABLE_CODES = (408, 425, 429, 500, 502, 503, 504)
_HINTS = {
    401: "it requires credentials: a signed URL, or user and password in it",
    403: "it requires credentials: a signed URL, or user and password in it",
    404: "correct the address",
    410: "correct the address",
}


class FileVersion(NamedTuple):
    """The headers of a response by which a server recognises the version of a file."""

    etag: str | None = None
    modified: str | None = None
    size: int | None = None

    @property
    def validator(self) -> str | None:
        """The value for If-Range, which must not be a weak tag; None if there is none."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.modified


class _RetryableError(Exception):
    """An error: an attempt failed, and another one may succeed. `done` is the number of bytes of the file that are
    here."""

    def __init__(self, what: str, done: int = 0) -> None:
        super().__init__(what)
        self.done = done


def download(
    url: str,
    part: str,
    known: FileVersion | None,
    tick: Tick,
    headers: Mapping[str, str] | None = None,
    pauses: Sequence[float] = PAUSES,
    sleep: Callable[[float], None] = time.sleep,
    *,
    known_content: bool = False,
) -> FileVersion | None:
    """Download the whole file at `url` to the file `part`, and return its FileVersion. Return None, without a file, if
    it is unchanged since the version `known`.

    An interrupted download in `part` is continued, unless the file has changed meanwhile. Raise UsageError if the
    request is refused permanently; that includes a redirection from https to http, unless the caller knows the content
    by a checksum (`known_content`). An error that `tick` raises ends the download. Raise WorldsizeError if all attempts
    fail; the part is kept for the next call.
    """
    return _repeat(
        lambda: _try_download(url, part, known, tick, headers or {}, known_content), url, part, pauses, sleep
    )


def read(url: str, limit: int, headers: Mapping[str, str] | None = None, pauses: Sequence[float] = PAUSES) -> bytes:
    """Download the small file at `url`, and return its content as bytes. Raise the errors of `download`; UsageError if
    it has more than `limit` bytes."""
    data = _repeat(lambda: _read_small(url, limit, headers or {}), url, "", pauses, time.sleep)
    if len(data) > limit:
        raise UsageError(f"is larger than {limit} bytes", display_url(url))
    return data


def _repeat(
    attempt: Callable[[], _T], url: str, part: str, pauses: Sequence[float], sleep: Callable[[float], None]
) -> _T:
    left, most = list(pauses), 0
    while True:
        try:
            return attempt()
        except _RetryableError as error:
            if error.done > most:
                left, most = list(pauses), error.done
            if not left:
                hint = "try again: the received part is kept" if os.path.exists(part) else "is the network up?"
                raise WorldsizeError(f"cannot be fetched: {error}", display_url(url), hint) from None
            sleep(left.pop(0))


def _read_small(url: str, limit: int, headers: Mapping[str, str]) -> bytes:
    """Read the content of the file at `url` in one attempt, and return it. Of a file larger than `limit`, one byte more
    than the limit is read. Raise _RetryableError if the connection broke."""
    from http.client import HTTPException

    with _open(url, headers) as answer:
        try:
            data: bytes = answer.read(limit + 1)
        except (HTTPException, OSError) as error:
            raise _RetryableError(f"the connection broke ({_error_text(error)})") from None
        if len(data) <= limit and answer.length:
            raise _RetryableError(f"the connection broke after {len(data)} bytes")
    return data


def _try_download(
    url: str, part: str, known: FileVersion | None, tick: Tick, headers: Mapping[str, str], known_content: bool
) -> FileVersion | None:
    have = _resumable_version(part)
    start = os.path.getsize(part) if have else 0
    with _open(url, {**headers, **_conditions(have, start, known)}, downgrade=known_content) as answer:
        if answer.status == 304:
            return None
        if answer.status == 416 or (answer.status == 206 and _first_byte(answer) != start):
            os.unlink(part)
            why = {206: "the server sent another part than requested", 416: "the file has become smaller"}
            raise _RetryableError(why[answer.status])
        start = start if answer.status == 206 else 0
        version = _version(answer, start)
        write_json(part + ".json", version._asdict())
        _receive(answer, part, start, version.size or 0, tick)
    os.unlink(part + ".json")
    return version


def _conditions(have: FileVersion | None, start: int, known: FileVersion | None) -> dict[str, str]:
    if have and have.validator and start:
        return {"Range": f"bytes={start}-", "If-Range": have.validator}
    found = {}
    if known and known.etag:
        found["If-None-Match"] = known.etag
    elif known and known.modified:
        found["If-Modified-Since"] = known.modified
    return found


def _resumable_version(part: str) -> FileVersion | None:
    """Return the FileVersion of the interrupted download in the file `part`; None if there is no download that can be
    continued."""
    try:
        value = read_json(part + ".json")
        return FileVersion(**value) if value and os.path.exists(part) else None
    except (ValueError, TypeError):
        return None


def _version(answer: Any, start: int) -> FileVersion:
    """Return the FileVersion in the headers of an HTTP response whose body begins at byte `start` of the file. Its size
    is that of the whole file, None if the server does not report it."""
    length = parse_digits(answer.headers.get("Content-Length"))
    size = None if length is None else length + start
    return FileVersion(answer.headers.get("ETag"), answer.headers.get("Last-Modified"), size)


def _first_byte(answer: Any) -> int | None:
    return parse_digits(answer.headers.get("Content-Range", "").partition(" ")[2].partition("-")[0])


def _receive(answer: Any, part: str, start: int, total: int, tick: Tick) -> None:
    from http.client import HTTPException

    done = start
    with open(part, "r+b" if start else "wb") as file:
        file.truncate(start)
        file.seek(start)
        try:
            while data := answer.read(_CHUNK):
                file.write(data)
                done += len(data)
                tick(done, total)
        except (HTTPException, TimeoutError, ConnectionError) as error:
            raise _RetryableError(f"the connection broke after {done} bytes ({_error_text(error)})", done) from None
    if total and done < total:
        raise _RetryableError(f"the connection broke after {done} of {total} bytes", done)


def _open(url: str, headers: Mapping[str, str], downgrade: bool = False) -> Any:
    """Send a GET request for `url`, and return the HTTP response, including "not modified" (304) and "range not
    satisfiable" (416). `downgrade` permits redirections from https to http. Raise UsageError if the request is refused
    permanently, _RetryableError if another attempt may succeed."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, build_opener

    plain, authorization = without_user(url)
    request = Request(plain, headers={"User-Agent": "worldsize/" + VERSION, **headers})
    request.add_header("Accept-Encoding", "identity")
    authorization = request.headers.pop("Authorization", authorization)
    if authorization:  # must not be sent to another host after a redirection
        request.add_unredirected_header("Authorization", authorization)
    opener = build_opener(_redirect_handler(downgrade))
    try:
        return opener.open(request, timeout=_TIMEOUT)
    except HTTPError as error:
        if error.code in (304, 416):
            return error
        error.close()
        if error.code in _RETRYABLE_CODES:
            raise _RetryableError(f"{error.code} {error.reason}") from None
        raise UsageError(f"{error.code} {error.reason}", display_url(url), _HINTS.get(error.code)) from None
    except URLError as error:
        refuse_unknown_host(error.reason, url)
        raise _RetryableError(_error_text(error.reason)) from None
    except (HTTPException, TimeoutError, ConnectionError) as error:
        raise _RetryableError(_error_text(error)) from None
    except ValueError as error:
        raise UsageError(f"is not an address: {error}", display_url(url)) from None


def refuse_unknown_host(error: object, url: str) -> None:
    """Raise UsageError if the error of a connection means that no host has the name in `url`: another attempt would not
    help. Otherwise do nothing."""
    import socket

    if isinstance(error, socket.gaierror) and error.errno in (socket.EAI_NONAME, _EAI_NODATA):
        host = urlsplit(url).hostname or ""
        hint = "correct the address; behind a proxy, HTTPS_PROXY or HTTP_PROXY names it"
        raise UsageError(f"no host is named {host} (DNS: {error.strerror})", display_url(url), hint)


def _redirect_handler(downgrade: bool) -> Any:
    from urllib.request import HTTPRedirectHandler

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, asked: Any, file: Any, code: int, words: str, headers: Any, url: str) -> Any:
            if not url.lower().startswith(("http:", "https:")):
                raise UsageError(f"is neither http nor https: {display_url(url)}", display_url(asked.full_url))
            if not downgrade and asked.type == "https" and not url.lower().startswith("https:"):
                what = f"redirects from https to http, where other servers could answer: {display_url(url)}"
                raise UsageError(what, display_url(asked.full_url), "set the file's sha256, or another address")
            return super().redirect_request(asked, file, code, words, headers, url)

    return Redirects()


def _error_text(error: object) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def display_url(url: str) -> str:
    """Return `url` in the form that is shown to people: without user, password, query, fragment and the tokens in paths
    of conda servers."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return mask_tokens_in_paths(urlunsplit((parts.scheme, host, parts.path, "", ""))) + ("?…" if parts.query else "")


def without_user(url: str) -> tuple[str, str]:
    """Return the URL without user and password, and the value of the Authorization header that replaces them; "" if
    there are none."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    from base64 import b64encode

    name, _, password = user.partition(":")
    token = b64encode((f"{unquote(name)}:{unquote(password)}").encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), "Basic " + token
