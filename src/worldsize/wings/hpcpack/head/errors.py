"""The conversion of the head node's refusals into worldsize's errors, with hints on what to do."""

from __future__ import annotations

import re

from worldsize.compute.http.errors import LostAnswer, Service, TurnedAway, Unanswered
from worldsize.errors import ConfigError, SubmitRejected, WorldsizeError
from worldsize.wings.hpcpack.head.credentials import VARIABLE
from worldsize.wings.hpcpack.settings import HeadAccess


class LoginRefused(ConfigError):
    """The error for a user and password that the head node does not accept."""


class MissingResource(SubmitRejected):
    """The error for a job, list or page that the head node does not know."""


_RETRY_STATUSES = (408, 429, 502, 503, 504)
_AUTHORITY = (
    "get the certificate of its authority from its administrators (or look at it: `{look}`), and name it: ca_file"
)
_HINTS = (
    ("template", "`hpcpack.template` must be one of the head's job templates"),
    ("node group", "`hpcpack.node_group`: `worldsize nodes` shows the groups"),
    ("credential|password|log ?on", "submit one job with the cluster's own client, so that it keeps your password"),
    ("command ?line", "a shorter `python` or `share.node` of the compute"),
    ("node .*(exist|found)", "`hpcpack.nodes`: `worldsize nodes` lists them"),
    ("nodes|cores|sockets|resource", "fewer nodes, or another node_group: `worldsize nodes` lists them"),
    ("permission|access|not allowed|authoriz", "ask the cluster's administrators for it"),
)


def head_service(access: HeadAccess) -> Service:
    """Return the description of the HPC Pack head node (its URL, the key to correct, the hint on certificates) for
    error messages."""
    return Service("the head node", access.url, "`url`", _AUTHORITY)


def response_error(status: int, message: str, request: str, access: HeadAccess, pause: float = 0.0) -> WorldsizeError:
    """Return the error for an unsuccessful HTTP answer of the head node. `request` is "METHOD PATH".

    The error is ConfigError (LoginRefused) if the account is refused, and ConfigError for a redirect to another
    address. It is TurnedAway if the head is away or busy, and LostAnswer if the head may have carried out the request
    all the same; neither should be sent again within `pause` seconds. It is MissingResource if the object does not
    exist. Everything else is SubmitRejected with the head's own message.
    """
    if status == 401:
        what = f"the head node refuses {access.user}: wrong user or password"
        hint = f"correct `user` (DOMAIN\\name), and the password: {VARIABLE}, the keyring, or type it again"
        return LoginRefused(what, access.url, hint)
    if status in _RETRY_STATUSES:
        kind: type[Unanswered] = TurnedAway if request.startswith("GET ") or status in (429, 503) else LostAnswer
        error = kind(f"the head node cannot answer now: {message} ({status})", access.url, "try again")
        error.pause = pause
        return error
    if status == 404:
        return MissingResource(message or "not found", request)
    if 300 <= status < 400:
        what = f"it redirects to another address ({status}): {message}"
        return ConfigError(what, access.url, "`url` must be the head node's own")
    return SubmitRejected(message or f"refused with status {status}", request, hint_for(message))


def hint_for(message: str) -> str | None:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, message, re.IGNORECASE)), None)
