"""From an HTTP request to an answer of the head node."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from worldsize_hpcpack_simulator.api.head import Answer, Call, HeadNode
from worldsize_hpcpack_simulator.api.routes import find_route
from worldsize_hpcpack_simulator.wire import RequestRefused

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

BASE = "/hpc"
_LARGEST = 4 << 20


def web_app(head: HeadNode, changed: Callable[[], None], logged: Callable[[str], None]) -> ASGIApp:
    """`changed` is called after each request that may have changed something, `logged` with a line for each."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        answer = await _answer(head, request)
        logged(f"{request.method} {_target(request)} {answer.status}")
        if request.method != "GET":
            changed()
        response: Response
        if answer.value is None:
            response = Response(status_code=answer.status, headers=dict(answer.headers), media_type="application/json")
        else:
            response = JSONResponse(answer.value, answer.status, headers=dict(answer.headers))
        await response(scope, receive, send)

    return app


def _target(request: Request) -> str:
    return request.url.path + ("?" + request.url.query if request.url.query else "")


async def _answer(head: HeadNode, request: Request) -> Answer:
    try:
        return await _handle(head, request)
    except RequestRefused as error:
        headers = {"WWW-Authenticate": 'Basic realm="HPC Pack"'} if error.status == 401 else {}
        return Answer(error.message, error.status, headers)


async def _handle(head: HeadNode, request: Request) -> Answer:
    body = await _read(request)
    user = head.users.caller(request.headers.get("authorization"), request.headers.get("x-ms-as-user"))
    path = _path(request)
    found = find_route(path[len(BASE) :], head.options.generation) if path.lower().startswith(BASE + "/") else None
    if found is None:
        raise RequestRefused(404, f"There is nothing at {request.url.path}.")
    route, variables = found
    handler = route.methods.get(request.method)
    if handler is None:
        message = f"{request.method} is not allowed at {request.url.path}."
        return Answer(message, 405, {"Allow": ", ".join(route.methods)})
    query = {name.lower(): value for name, value in request.query_params.items()}
    values = {name: unquote(value) for name, value in variables.items()}
    return handler(head, Call(user, values, query, _parse_body(body, request) if request.method != "GET" else None))


def _path(request: Request) -> str:
    """Still quoted, so that a quoted slash stays part of a name."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace").partition("?")[0].rstrip("/")


async def _read(request: Request) -> bytes:
    """RequestRefused: it is too large."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > _LARGEST:
            raise RequestRefused(413, f"The request body is larger than {_LARGEST} bytes.")
    return bytes(data)


def _parse_body(body: bytes, request: Request) -> object:
    """None for no body. RequestRefused: it is not JSON, is `null`, or says that it is something else."""
    if not body.strip():
        return None
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/json"):
        raise RequestRefused(415, f"The request body is {kind}; it must be application/json.")
    try:
        found: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RequestRefused(400, "The request body is not JSON.") from None
    if found is None:
        raise RequestRefused(400, "The request body is null.")
    return found


def _refuse_constant(word: str) -> float:
    raise ValueError(word)
