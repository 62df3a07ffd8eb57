"""A web server of a test's own, which does what it is told: it breaks off, changes files, forgets about ranges."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

Reply = tuple[int, Mapping[str, str], bytes]


class Asked(NamedTuple):
    """One request, as the server saw it; header names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    status: int


class Site:
    """`files`: content by path. What is asked is kept in `asked`.

    ranges   answers a part where a part is asked for
    tags     sends ETag and Last-Modified
    breaks   of each of the next answers, so many bytes are sent before the connection ends
    says     status codes of the next answers, whatever is asked; 0: as ever
    replies  whole answers by path: status, headers, content
    acts     asked first, with method, path and headers; None: as ever
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.ranges = True
        self.tags = True
        self.breaks: list[int] = []
        self.says: list[int] = []
        self.replies: dict[str, Reply] = {}
        self.acts: Callable[[str, str, Mapping[str, str]], Reply | None] | None = None
        self.credentials: str | None = None
        self.url = ""

    def statuses(self) -> list[int]:
        return [asked.status for asked in self.asked]


@contextmanager
def serve() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            acted = site.acts(self.command, self.path, headers) if site.acts else None
            status, more, body = acted or _answer(site, self.path, headers)
            site.asked.append(Asked(self.command, self.path, headers, status))
            limit = site.breaks.pop(0) if site.breaks and self.command == "GET" else None
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            if "Content-Length" not in more:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body if limit is None else body[:limit])
            if limit is not None:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.url = "http://127.0.0.1:%d" % server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(site: Site, path: str, headers: Mapping[str, str]) -> Reply:
    said = site.says.pop(0) if site.says else 0
    if said:
        return said, {}, b""
    if site.credentials and headers.get("authorization") != site.credentials:
        return 401, {}, b""
    if path in site.replies:
        return site.replies[path]
    content = site.files.get(urlsplit(path).path)
    if content is None:
        return 404, {}, b"no such file"
    tag = '"%s"' % hashlib.md5(content).hexdigest()
    more = {"ETag": tag, "Last-Modified": "Sat, 21 Nov 2026 10:31:00 GMT"} if site.tags else {}
    if site.tags and headers.get("if-none-match") == tag:
        return 304, more, b""
    start = headers.get("range", "").removeprefix("bytes=").partition("-")[0]
    if not site.ranges or not start or headers.get("if-range") not in (None, tag):
        return 200, more, content
    if int(start) >= len(content):
        return 416, more, b""
    part = content[int(start) :]
    return 206, {**more, "Content-Range": "bytes %s-%d/%d" % (start, len(content) - 1, len(content))}, part
