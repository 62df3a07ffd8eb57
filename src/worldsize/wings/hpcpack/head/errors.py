"""Turn the head node's refusals into worldsize's errors, with what to do."""

from __future__ import annotations

import re

from worldsize.compute.http.errors import LostAnswer, Service, TurnedAway, Unanswered
from worldsize.errors import ConfigError, SubmitRejected, WorldsizeError
from worldsize.wings.hpcpack.head.credentials import VARIABLE
from worldsize.wings.hpcpack.settings import HeadAccess


class LoginRefused(ConfigError):
    """The head knows no such user with this password."""


class MissingResource(SubmitRejected):
    """The head does not know the job, list or page that was asked for."""


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
    """What messages say of the head node."""
    return Service("the head node", access.url, "`url`", _AUTHORITY)


def response_error(status: int, message: str, request: str, access: HeadAccess, pause: float = 0.0) -> WorldsizeError:
    """Return the error for an answer of the head to `METHOD PATH` that is no success. ConfigError: the account, or an
    answer that leads elsewhere; TurnedAway: the head is away or busy, LostAnswer where it may have carried out the
    request all the same, not to be sent again within `pause` seconds; MissingResource: there is no such thing;
    SubmitRejected: everything else, in the head's words."""
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
