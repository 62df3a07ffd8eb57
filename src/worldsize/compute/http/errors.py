"""The failures of a request to a service over HTTP, as worldsize's errors, and the messages in its answers."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError

_MOST = 500
_OPENSSL = "openssl s_client -connect {} -showcerts"
_UNKNOWN_CA = "its certificate was not issued by an authority known here ({words})"
_OTHER_HOST = "its certificate is for another name ({words})", "{setting} must use the name in the certificate"
_CERTIFICATES = {
    9: ("its certificate is not valid yet", "is this machine's clock right?"),
    10: ("its certificate has expired", "its administrators must renew it; nothing was sent to it"),
    **dict.fromkeys((2, 18, 19, 20, 21, 27), (_UNKNOWN_CA, "{authority}")),
    **dict.fromkeys((62, 64), _OTHER_HOST),
}
"""The problem of a certificate and the hint, by OpenSSL's X509_V_ERR_*."""


class Service(NamedTuple):
    """The words about a service in messages.

    name       "the head node"
    url        its address, without a secret
    setting    the key of the compute that contains the address: "`url`"
    authority  the hint if its certificate was issued by an unknown authority; `{look}` is a command that shows it
    """

    name: str
    url: str
    setting: str
    authority: str

    @property
    def mend(self) -> str:
        return f"correct {self.setting} of the compute"


class Unanswered(SubmitAgain):
    """The error of a request without a usable answer. The request may be sent again after at least `pause` seconds."""

    pause = 0.0


class TurnedAway(Unanswered):
    """The error of a request to a service that is busy, and that did nothing."""


class LostAnswer(Unanswered):
    """The error of a request whose answer did not arrive, or does not state the result. The request may have been
    carried out."""


class WrongCertificate(ConfigError):
    """The error of a certificate that does not prove that the service is the one that is meant. Nothing was sent to
    it."""


def connection_error(error: Exception, sent: bool, service: Service) -> WorldsizeError:
    """Return the error to raise for an HTTP connection to `service` that failed with `error`: for a wrong certificate,
    an unknown host, a lost answer or an unreachable service. `sent` means that the request may have reached the
    service."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return _certificate_error(cause, service)
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return ConfigError(f"no host has this name: {cause.strerror}", service.url, service.mend)
    words = _error_text(error)
    if sent:
        return LostAnswer(f"{service.name} did not answer: {words}", service.url, "try again")
    what = f"{service.name} cannot be reached: {words}"
    return SubmitAgain(what, service.url, f"is it up, and is {service.setting} right?")


def message_of(body: bytes, phrase: str = "") -> str:
    """Return the message in the body of an HTTP answer with which a service refuses a request. The body is JSON text,
    an object with a Message, or plain text. For a page for browsers, return its text, message or title. Return `phrase`
    if there is none."""
    text = body.decode("utf-8", "replace").strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        lowered = {str(name).lower(): item for name, item in value.items()}
        value = next(
            (lowered[name] for name in ("exceptionmessage", "message", "detail", "error") if lowered.get(name)), ""
        )
    said = value if isinstance(value, str) else json.dumps(value)
    if said.lstrip()[:1] == "<":
        found = re.search(r"<(?:Text|Message|title)[^>]*>([^<]+)<", said)
        said = found[1] if found else ""
    return one_line(said) or phrase


def one_line(text: str) -> str:
    """Return the words of a text on one line, cut after 500 characters."""
    words = " ".join(text.split())
    return words if len(words) <= _MOST else words[: _MOST - 1] + "…"


def pause_of(retry_after: str, now: float) -> float:
    """Return the seconds to wait that an HTTP header Retry-After means, which is a number of seconds or a date; 0 for
    none, for the past and for other text. `now` is in Unix seconds."""
    from email.utils import parsedate_to_datetime

    text = retry_after.strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _error_text(error: BaseException) -> str:
    """Return the operating system's message for an exception or one of its causes, if there is one, else the text of
    the exception."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    said = re.sub(r"\(?_ssl\.c:\d+\)?:? ?", "", str(error))  # the position in OpenSSL's module
    return said.strip() or type(error).__name__.replace("Timeout", " timed out")


def _certificate_error(error: ssl.SSLCertVerificationError, service: Service) -> WorldsizeError:
    host = service.url.partition("://")[2].partition("/")[0]
    look = _OPENSSL.format(host if ":" in host else host + ":443")
    what, hint = _CERTIFICATES.get(
        error.verify_code, ("its certificate is not valid ({words})", "ask its administrators")
    )
    mend = hint.format(setting=service.setting, authority=service.authority.format(look=look))
    return WrongCertificate(what.format(words=error.verify_message), service.url, mend)
