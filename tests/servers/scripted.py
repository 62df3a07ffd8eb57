"""An HTTP server that answers as it is told: a real one, with a script of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Asked(NamedTuple):
    """`path` and `query` as they were sent, `params` the query's values."""

    method: str
    path: str
    params: dict[str, str]
    body: Any
    headers: dict[str, str]
    query: str


class Reply(NamedTuple):
    """`status` 0: the connection ends without an answer."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    text: bytes | None = None


LOST = Reply(0)


class Server:
    """`answer` is asked for each request's reply; `asked` holds all of them. For its clients time passes as they
    `sleep`, and only so."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.slept: list[float] = []
        self.url = ""

    def clock(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def lines(self) -> list[str]:
        return ["%s %s" % (each.method, each.path) for each in self.asked]


@contextmanager
def serve(server: Server) -> Iterator[None]:
    """It answers inside, at its `url`."""

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            text = self.rfile.read(size)
            body = json.loads(text) if text else None
            headers = {k.lower(): v for k, v in self.headers.items()}
            asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), body, headers, parts.query)
            server.asked.append(asked)
            reply = server.answer(asked)
            if reply.status == 0:
                self.close_connection = True
                self.connection.close()
                return
            data = (
                reply.text if reply.text is not None else b"" if reply.body is None else json.dumps(reply.body).encode()
            )
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _do

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.url = "http://127.0.0.1:%d" % http.server_port
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def answers(answer: Callable[[Asked], Reply] | list[Reply]) -> Callable[[Asked], Reply]:
    """A function of what is asked, or the replies in their order."""
    if not isinstance(answer, list):
        return answer
    script = iter(answer)
    return lambda asked: next(script, Reply(500))
