"""The web application: it converts HTTP requests to calls of the head node, and the results to responses."""

from __future__ import annotations

from collections.abc import Callable

from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldsize_hpcpack_simulator.api.head import HeadNode
from worldsize_hpcpack_simulator.api.routes import ROUTES
from worldsize_hpcpack_simulator.wire import RequestRefused

_LARGEST = 4 << 20


def web_app(head: HeadNode, changed: Callable[[], None], logged: Callable[[str], None]) -> ASGIApp:
    """Return the ASGI application that answers HPC Pack's requests with the state of `head`. `changed` is called after
    each request that may have changed something, `logged` with a line for each request."""
    served = [route for route in ROUTES if head.options.generation in ("both", *route.generations)]
    router = Router(served, redirect_slashes=False, default=_refuse_path)

    async def admit(scope: Scope, receive: Receive, send: Send) -> None:
        """Read a request's body, authenticate its user, and pass the request to the router."""
        request = Request(scope, receive)
        body = await _read(request)
        user = head.users.caller(request.headers.get("authorization"), request.headers.get("x-ms-as-user"))
        state = {"head": head, "user": user, "body": body, "path": request.url.path}
        await router({**scope, "path": _quoted_path(request), "state": state}, receive, send)

    answering = ExceptionMiddleware(admit, {RequestRefused: _to_response})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)

        async def send_logged(message: Message) -> None:
            if message["type"] == "http.response.start":
                logged(f"{request.method} {_target(request)} {message['status']}")
                if request.method != "GET":
                    changed()
            await send(message)

        await answering(scope, receive, send_logged)

    return app


def _target(request: Request) -> str:
    return request.url.path + ("?" + request.url.query if request.url.query else "")


def _quoted_path(request: Request) -> str:
    """Return the path of a request in its quoted form, so that a quoted slash stays part of a name."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.decode("ascii", "replace").partition("?")[0].rstrip("/")


async def _read(request: Request) -> bytes:
    """Read the body of a request, and return it. Raise RequestRefused (413) if it is too large."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > _LARGEST:
            raise RequestRefused(413, f"The request body is larger than {_LARGEST} bytes.")
    return bytes(data)


async def _refuse_path(scope: Scope, receive: Receive, send: Send) -> None:
    raise RequestRefused(404, f"There is nothing at {scope['state']['path']}.")


async def _to_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefused)
    return JSONResponse(error.message, error.status, error.headers)
