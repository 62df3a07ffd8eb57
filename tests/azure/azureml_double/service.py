"""The service: what each request is answered, by whose right, and with which fault."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from azureml_double.address import domain, node_address
from azureml_double.api import (
    account_routes,
    admin_routes,
    asset_routes,
    blob_routes,
    compute_routes,
    history_routes,
    job_routes,
)
from azureml_double.assets import Assets
from azureml_double.blob_store import BlobStore
from azureml_double.faults import Faults, refusal, spoil
from azureml_double.jobs import Jobs
from azureml_double.options import ACCOUNT, CONTAINERS, Options, scope
from azureml_double.runs.runner import Runner
from azureml_double.web import Answer, Handler, Refusal, Request, Route, route

TOKEN_SECONDS = 3600


class Service:
    """url        of the control plane and the run history
    suffix     of storage, with the port: the account's blobs are at https://ACCOUNT.blob.SUFFIX
    store, assets, jobs, faults
    """

    def __init__(self, folder: str, slot: int, options: Options) -> None:
        self.folder, self.slot, self.options = folder, slot, options
        self.url = self.suffix = ""
        self.store = BlobStore(os.path.join(folder, "blobs"))
        for container in CONTAINERS.values():
            self.store.make_container(container)
        self.assets = Assets()
        self.jobs = Jobs()
        self.faults = Faults()
        self.runner = Runner(self)
        self.refused: set[str] = set()
        self._issued: dict[str, float] = {}
        self._lock = threading.Lock()
        self._log = open(os.path.join(folder, "requests.log"), "a", encoding="utf-8", buffering=1)
        self._open: list[Route] = account_routes.routes(self)
        modules = (compute_routes, asset_routes, job_routes, history_routes)
        self._routes = [each for module in modules for each in module.routes(self)]
        self._admin = admin_routes.routes(self)

    def listens(self, address: str, port: int) -> None:
        self.url = "https://%s:%d" % (address, port)
        self.suffix = "%s:%d" % (domain(self.slot), port)

    def end(self) -> None:
        self.runner.end()

    def node_address(self, node: int) -> str:
        return node_address(self.slot, node)

    def workspace_route(self, method: str, path: str, handler: Handler, before: str = "") -> Route:
        """Of a path below the workspace, which begins with `before`: `/history/v1.0`, …"""
        return route(method, before + re.escape(scope()) + path, handler)

    # Tokens and signatures

    def issue_token(self) -> str:
        token = "double.%s" % secrets.token_hex(16)
        with self._lock:
            self._issued[token] = time.monotonic() + TOKEN_SECONDS
        return token

    def signed(self, container: str, blob: str = "", permissions: str = "r", minutes: float = 60) -> str:
        """The address of a blob or a container with a shared access signature."""
        place = "/".join(each for each in (container, blob) if each)
        signed = signature(permissions, minutes, self.options.keyless)
        return "https://%s.blob.%s/%s?%s" % (ACCOUNT, self.suffix, place, signed)

    # Requests

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/admin/"):
            return self._answer_by(self._admin, request, self._authorize_admin)
        fault = self.faults.take(request)
        if fault is not None and fault.status:
            found = refusal(fault).answer()._replace(delay=fault.delay)
        else:
            found = self._answer(request)
            found = found if fault is None else spoil(found, fault)
        self._log.write("%s %s%s %d\n" % (request.method, request.host.partition(":")[0], request.path, found.status))
        return found

    def _answer(self, request: Request) -> Answer:
        if not request.host.startswith("%s.blob." % ACCOUNT):
            open_to_all = any(each.pattern.fullmatch(request.path) for each in self._open)
            if open_to_all:
                return self._answer_by(self._open, request)
            return self._answer_by(self._routes, request, self._authorize)
        try:
            return blob_routes.answer(self.store, request, self._authorize if self.options.keyless else None)
        except Refusal as error:
            return error.storage_answer()

    def _answer_by(
        self, routes: list[Route], request: Request, authorize: Callable[[Request], None] = lambda request: None
    ) -> Answer:
        try:
            authorize(request)
            return _dispatch(routes, request)
        except Refusal as error:
            return error.answer()
        except Exception as error:  # noqa: BLE001 - a request of a strange form must not end the connection
            traceback.print_exc()
            return Refusal(500, "InternalServerError", "The double failed: %r" % error).answer()

    def _authorize_admin(self, request: Request) -> None:
        """By the token the double was started with, revoked or not."""
        if request.headers.get("authorization") != "Bearer " + self.options.token:
            raise Refusal(401, "AuthenticationFailed", "This needs the token that the double was started with.")

    def _authorize(self, request: Request) -> None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind == "Bearer" and token not in self.refused:
            if secrets.compare_digest(token.encode(), self.options.token.encode()):
                return
            if self._issued.get(token, 0) > time.monotonic():
                return
        raise Refusal(
            401,
            "InvalidAuthenticationToken" if token else "AuthenticationFailed",
            "The access token is invalid."
            if token
            else "Authentication failed. The 'Authorization' header is missing.",
            {"WWW-Authenticate": 'Bearer authorization_uri="%s/common", error="invalid_token"' % self.url},
        )


def signature(permissions: str, minutes: float, delegated: bool = False) -> str:
    """The query of a shared access signature; `delegated`: by a login in place of the account's key.

    azure-ai-ml takes such a text, where it asked a datastore for its secret, as the account's key, and decodes it from
    base64 to sign with it: its length is such that this works.
    """
    end = datetime.now(timezone.utc) + timedelta(minutes=minutes)
    text = "sv=2023-11-03&sr=c&sp=%s&se=%s&sig=" % (permissions, end.strftime("%Y-%m-%dT%H%%3A%M%%3A%SZ"))
    text = "skoid=double&" + text if delegated else text
    letters = len(re.sub(r"[^A-Za-z0-9+/]", "", text))
    return text + secrets.token_hex(40)[: 44 + -letters % 4]


def _dispatch(routes: list[Route], request: Request) -> Answer:
    allowed = False
    for each in routes:
        found = each.pattern.fullmatch(request.path)
        if found and each.method == request.method:
            if request.path.lower().startswith("/subscriptions/") and not request.query.get("api-version"):
                text = "The api-version query parameter (?api-version=) is required for all requests."
                raise Refusal(400, "MissingApiVersionParameter", text)
            return each.handler(request, **found.groupdict())
        allowed = allowed or found is not None
    if allowed:
        raise Refusal(405, "MethodNotAllowed", "The double does not answer %s here." % request.method)
    raise Refusal(404, "ResourceNotFound", "The resource %r was not found." % request.path)
