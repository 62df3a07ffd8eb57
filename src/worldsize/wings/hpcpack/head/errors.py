"""Turn what went wrong with a request into one of worldsize's errors, with what to do."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator

from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.wings.hpcpack.head.credentials import VARIABLE
from worldsize.wings.hpcpack.settings import HeadAccess


class LostAnswer(SubmitAgain):
    """No answer came, or none that says it: the request may have been carried out."""


class LoginRefused(ConfigError):
    """The head knows no such user with this password."""


class WrongCertificate(ConfigError):
    """The head's certificate does not prove that it is the one that is meant; nothing was sent to it."""


class MissingResource(SubmitRejected):
    """The head does not know the job, list or page that was asked for."""


_RETRY_STATUSES = (408, 429, 502, 503, 504)
_OPENSSL = "openssl s_client -connect {} -showcerts"
_UNKNOWN_CA = (
    "its certificate is of no authority known here ({words})",
    "get the certificate of its authority from its administrators (or look at it: `{look}`), and name it: ca_file",
)
_OTHER_HOST = "its certificate is for another name ({words})", "`url` must use the name that it was made for"
_CERTIFICATES = {
    9: ("its certificate is not valid yet", "is this machine's clock right?"),
    10: ("its certificate has expired", "its administrators must renew it; nothing was sent to it"),
    **dict.fromkeys((2, 18, 19, 20, 21, 27), _UNKNOWN_CA),
    **dict.fromkeys((62, 64), _OTHER_HOST),
}
"""What is wrong, and the mend, by OpenSSL's X509_V_ERR_*."""

_HINTS = (
    ("template", "`hpcpack.template` must be one of the head's job templates"),
    ("node group", "`hpcpack.node_group`: `worldsize nodes` shows the groups"),
    ("credential|password|log ?on", "submit one job with the cluster's own client, so that it keeps your password"),
    ("command ?line", "a shorter `python` or `share.node` of the compute"),
    ("node .*(exist|found)", "`hpcpack.nodes`: `worldsize nodes` shows what there is"),
    ("nodes|cores|sockets|resource", "fewer nodes, or another node_group: `worldsize nodes` shows what there is"),
    ("permission|access|not allowed|authoriz", "ask the cluster's administrators for it"),
)


def response_error(status: int, message: str, request: str, access: HeadAccess) -> WorldsizeError:
    """The error for an answer of the head to `METHOD PATH` that is no success. ConfigError: the account, or an answer
    that leads elsewhere; SubmitAgain: the head is away or busy, LostAnswer where it may have carried out the request
    all the same; MissingResource: there is no such thing; SubmitRejected: everything else, in the head's words."""
    if status == 401:
        what = f"the head node refuses {access.user}: wrong user or password"
        hint = f"mend `user` (DOMAIN\\name), and the password: {VARIABLE}, the keyring, or type it again"
        return LoginRefused(what, access.url, hint)
    if status in _RETRY_STATUSES:
        kind = SubmitAgain if request.startswith("GET ") or status in (429, 503) else LostAnswer
        return kind(f"the head node cannot answer now: {message} ({status})", access.url, "try again")
    if status == 404:
        return MissingResource(message or "not found", request)
    if 300 <= status < 400:
        what = f"it sends us elsewhere ({status}): {message}"
        return ConfigError(what, access.url, "`url` must be the head node's own")
    return SubmitRejected(message or f"refused with status {status}", request, hint_for(message))


def hint_for(message: str) -> str | None:
    return next((hint for pattern, hint in _HINTS if re.search(pattern, message, re.IGNORECASE)), None)


def connection_error(error: Exception, sent: bool, access: HeadAccess) -> WorldsizeError:
    """The error for a connection that failed. `sent`: the request may have reached the head."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate_error(cause, access)
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return ConfigError(f"no host has this name: {cause.strerror}", access.url, "mend `url` of the compute")
    words = _error_text(error)
    if sent:
        return LostAnswer(f"the head node did not answer: {words}", access.url, "try again")
    return SubmitAgain(f"the head node cannot be reached: {words}", access.url, "is it up, and is `url` right?")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _error_text(error: BaseException) -> str:
    """An error in the system's own words, where there are some."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    said = re.sub(r"\(?_ssl\.c:\d+\)?:? ?", "", str(error))  # where in OpenSSL's module
    return said.strip() or type(error).__name__.replace("Timeout", " timed out")


def _certificate_error(error: ssl.SSLCertVerificationError, access: HeadAccess) -> WorldsizeError:
    host = access.url.partition("://")[2].partition("/")[0]
    look = _OPENSSL.format(host if ":" in host else host + ":443")
    what, hint = _CERTIFICATES.get(
        error.verify_code, ("its certificate is not valid ({words})", "ask its administrators")
    )
    return WrongCertificate(what.format(words=error.verify_message), access.url, hint.format(look=look))
