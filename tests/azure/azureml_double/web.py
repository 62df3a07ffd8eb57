"""Requests and answers as values, and errors as Azure writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from xml.sax.saxutils import escape


class Request(NamedTuple):
    """path   unquoted; query   the last value of each name; headers   names in lower case"""

    method: str
    host: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body, an object. Raises Refusal."""
        try:
            found = json.loads(self.body or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Refusal(400, "InvalidRequestContent", "The request content was invalid: it is not a JSON object.")
        return found


class Answer(NamedTuple):
    """body    JSON unless it is bytes
    cut     the connection ends after so many bytes of the body; -1: before the answer; None: never
    delay   seconds before it is sent
    """

    status: int = 200
    body: object = b""
    headers: Mapping[str, str] = {}
    cut: int | None = None
    delay: float = 0.0

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Refusal(Exception):
    """An answer that is an error, with Azure's code."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, dict(headers or {})

    def answer(self) -> Answer:
        return Answer(self.status, {"error": {"code": self.code, "message": str(self)}}, self.headers)

    def storage_answer(self) -> Answer:
        text = '<?xml version="1.0" encoding="utf-8"?><Error><Code>%s</Code><Message>%s</Message></Error>'
        headers = {"x-ms-error-code": self.code, "Content-Type": "application/xml", **self.headers}
        return Answer(self.status, (text % (escape(self.code), escape(str(self)))).encode(), headers)


Handler = Callable[..., Answer]


class Route(NamedTuple):
    """Answers `method` for the paths that match; the named groups are the handler's further arguments."""

    method: str
    pattern: re.Pattern[str]
    handler: Handler


def route(method: str, path: str, handler: Handler) -> Route:
    """`{name}` is one segment of the path, `{name*}` any number of them; letters of either case."""
    text = re.sub(r"\{(\w+)\*\}", r"(?P<\1>.*)", path)
    text = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", text)
    return Route(method, re.compile(text + "/?", re.IGNORECASE), handler)
