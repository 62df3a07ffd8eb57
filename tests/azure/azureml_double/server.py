"""HTTPS: a thread for each connection, which reads requests and sends what the service answers."""

from __future__ import annotations

import http.server
import os
import socket
import ssl
import struct
import sys
import time
import uuid
from collections.abc import Callable
from email.utils import formatdate
from urllib.parse import parse_qsl, unquote, urlsplit

from azureml_double.web import Answer, Request

MOST_BYTES = 512 * 1024 * 1024


class _Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    disable_nagle_algorithm = True
    server: Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        host = headers.get("host", "").lower()
        try:
            body = self._body(headers)
        except ValueError:
            self.close_connection = True
            return self._send(Answer(400))
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        request = Request(self.command, host, unquote(parts.path), query, headers, body)
        self._send(self.server.answer(request))

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _serve

    def _body(self, headers: dict[str, str]) -> bytes:
        """Raises ValueError if it is cut, or too long."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            chunks = []
            while size := int(self.rfile.readline(100), 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline(4)
            self.rfile.readline(4)
            return b"".join(chunks)
        length = int(headers.get("content-length") or 0)
        body = self.rfile.read(length) if 0 <= length <= MOST_BYTES else b""
        if len(body) != length:
            raise ValueError("the body is cut")
        return body

    def _send(self, answer: Answer) -> None:
        if answer.delay:
            time.sleep(answer.delay)
        if answer.cut == -1:
            return self._cut()
        content = answer.content()
        headers = {
            "Date": formatdate(usegmt=True),
            "Content-Type": "application/json; charset=utf-8",
            "Content-Length": str(len(content)),
            "x-ms-request-id": str(uuid.uuid4()),
            **answer.headers,
        }
        self.send_response_only(answer.status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content if answer.cut is None else content[: answer.cut])
        if answer.cut is not None:
            self.wfile.flush()
            self._cut()

    def _cut(self) -> None:
        """End the connection as a broken network does, without the end of TLS."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def finish(self) -> None:
        if self.connection.fileno() >= 0:
            super().finish()

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests are recorded by the service."""


class Server(http.server.ThreadingHTTPServer):
    """Listens on a free port of the address."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: str, context: ssl.SSLContext, answer: Callable[[Request], Answer]) -> None:
        super().__init__((address, 0), _Connection)
        self._context = context
        self.answer = answer

    def verify_request(self, request: object, client_address: tuple[str, int]) -> bool:
        """Not for other users of this machine: jobs run what was uploaded, and signatures are not computed again."""
        return user_of(*client_address) == os.getuid()

    def get_request(self) -> tuple[ssl.SSLSocket, object]:
        """The handshake comes with the first read, in the connection's thread."""
        connection, address = self.socket.accept()
        connection.settimeout(60)
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        if isinstance(request, socket.socket) and request.fileno() >= 0:
            super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients go away as they like; any other error is the double's own."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def user_of(address: str, port: int) -> int:
    """The id of the user whose socket on this machine has this address; -1 if there is none."""
    end = "%08X:%04X" % (int.from_bytes(socket.inet_aton(address), sys.byteorder), port)
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name, encoding="ascii") as file:
            for line in file:
                words = line.split()
                if words[1].endswith(end):
                    return int(words[7])
    return -1
