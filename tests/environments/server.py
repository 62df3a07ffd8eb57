"""A directory over HTTP, as a private channel is: with user and password, and a list of who asked for what."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any


class Served:
    """`url` without the password; `asked` are (path, status) in the order of the answers."""

    def __init__(self, user: str, password: str) -> None:
        self.token = base64.b64encode(("%s:%s" % (user, password)).encode()).decode()
        self.asked: list[tuple[str, int]] = []
        self.url = ""


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, *words: Any, served: Served, **more: Any) -> None:
        self.served = served
        super().__init__(*words, **more)

    def send_head(self) -> Any:
        if self.headers.get("Authorization") == "Basic " + self.served.token:
            return super().send_head()
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="channel"')
        self.send_header("Content-Length", "0")
        self.end_headers()
        return None

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        self.served.asked.append((self.path, int(code)))


@contextmanager
def serve(directory: Path, user: str, password: str) -> Iterator[Served]:
    served = Served(user, password)
    handler = partial(_Handler, served=served, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        served.url = "http://127.0.0.1:%d" % server.server_port
        Thread(target=server.serve_forever, daemon=True).start()
        yield served
        server.shutdown()
