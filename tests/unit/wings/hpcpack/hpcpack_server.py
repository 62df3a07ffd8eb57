"""A head node that answers as it is told: a real HTTP server with a script of its answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from worldsize.wings.hpcpack.head.client import HeadNodeClient
from worldsize.wings.hpcpack.settings import HeadAccess


class Asked(NamedTuple):
    method: str
    path: str
    params: dict[str, str]
    body: Any
    headers: dict[str, str]


class Reply(NamedTuple):
    """`status` 0: the connection ends without an answer."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    text: bytes | None = None


LOST = Reply(0)


class Server:
    """`answer` is asked for each request's reply; `asked` holds all of them."""

    def __init__(self, answer: Callable[[Asked], Reply]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.slept: list[float] = []
        self.url = ""

    def head(self, patience: float = 10.0, **access: Any) -> HeadNodeClient:
        """Its client. Time passes as it sleeps, and only so."""
        clock = [0.0]

        def sleep(seconds: float) -> None:
            clock[0] += seconds
            self.slept.append(seconds)

        self.sleep = sleep
        account = HeadAccess(self.url, "CORP\\me", **access)
        return HeadNodeClient(account, lambda: "pass:wörd", patience, now=lambda: clock[0], sleep=sleep)

    def lines(self) -> list[str]:
        return ["%s %s" % (each.method, each.path) for each in self.asked]


@contextmanager
def serving(answer: Callable[[Asked], Reply] | list[Reply]) -> Iterator[Server]:
    """A function of what is asked, or the replies in their order."""
    script = iter(answer) if isinstance(answer, list) else None
    server = Server((lambda asked: next(script, Reply(500))) if script else answer)  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            size = int(self.headers.get("content-length") or 0)
            text = self.rfile.read(size)
            body = json.loads(text) if text else None
            params = dict(parse_qsl(parts.query))
            asked = Asked(self.command, parts.path, params, body, {k.lower(): v for k, v in self.headers.items()})
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

        do_GET = do_POST = do_PUT = _do

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.url = "http://127.0.0.1:%d" % http.server_port
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def props(**values: object) -> list[dict[str, str]]:
    return [{"Name": name, "Value": str(value)} for name, value in values.items()]


def several(*rows: dict[str, object]) -> list[dict[str, Any]]:
    return [{"Properties": props(**row)} for row in rows]
