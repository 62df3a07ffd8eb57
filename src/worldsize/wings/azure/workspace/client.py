"""Client of the REST interface of a workspace: requests to the control plane, to its run history, and for signed
addresses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from worldsize.compute.http.errors import Service, message_of
from worldsize.compute.http.exchange import Exchange
from worldsize.errors import ConfigError, SubmitRejected
from worldsize.extras import require_packages
from worldsize.wings.azure.workspace.errors import Answer, MissingResource, response_error, without_signatures
from worldsize.wings.azure.workspace.settings import WorkspaceSettings

if TYPE_CHECKING:
    import httpx

API_VERSION = "2025-12-01"
PIECE = 64 << 20
"""The most bytes that `get_url` requests at once."""

_MOST_PAGES = 10_000
_HISTORY = "/history/v1.0"
_AUTHORITY = "if a proxy of your network opens connections: SSL_CERT_FILE and REQUESTS_CA_BUNDLE name its certificates"


class WorkspaceClient:
    """A workspace, accessed with the account of `token`. `token(False)` returns the present token, `token(True)` a new
    one. It is called when the first request needs it. `sent` counts the requests. `patience` and `idle` are those of
    Exchange. Certificates are verified, with the proxies and authorities that the environment names.

    Paths are below the workspace, unquoted: `/jobs/NAME`. A request that is turned away is sent again. One without an
    answer is sent again too, except a POST. All methods raise SignInRefused, PermissionRefused, MissingResource,
    ExistingResource, SubmitRejected, SubmitAgain and ConfigError.
    """

    def __init__(
        self,
        settings: WorkspaceSettings,
        token: Callable[[bool], str],
        patience: float,
        idle: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._token = token
        self._sleep = sleep
        self._exchange = Exchange(_open_http, patience, idle, clock, sleep)
        self._history: str | None = None

    def __enter__(self) -> WorkspaceClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.close()

    @property
    def sent(self) -> int:
        return self._exchange.sent

    def get(self, path: str, **params: object) -> Any:
        """Return the JSON value of the workspace's resource at `path`, by a GET request; "" is the workspace itself."""
        return self._ask("GET", path, None, params)

    def put(self, path: str, body: object = None, **params: object) -> Any:
        """Create or replace the workspace's resource at `path` by a PUT request, and return the JSON answer; None for
        an empty one. The same body may be sent twice, so it must have the same effect then."""
        return self._ask("PUT", path, body, params)

    def post(self, path: str, body: object = None, **params: object) -> Any:
        """Send a POST request, which changes something, to `path` in the workspace, and return the JSON answer; None
        for an empty one. Raise LostAnswer if it may have had its effect without an answer."""
        return self._ask("POST", path, body, params)

    def delete(self, path: str, **params: object) -> Any:
        """Remove the workspace's resource at `path` by a DELETE request, and return the JSON answer; None also if there
        is no such resource."""
        try:
            return self._ask("DELETE", path, None, params)
        except MissingResource:
            return None

    def list_all(self, path: str, **params: object) -> Iterator[dict[str, Any]]:
        """Yield each object of the workspace's list at `path`, whose pages are requested when they are needed. Raise
        SubmitRejected also for a list that leads to another host, or has no end."""
        endpoint, page, before = self.settings.endpoint, self.get(path, **params), set[str]()
        while True:
            value = page.get("value") if isinstance(page, dict) else None
            if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
                raise SubmitRejected("the service's answer is not a list", f"GET {path}")
            yield from value
            link = page.get("nextLink")
            if not link:
                return
            link = str(link)
            if _origin(link) != _origin(endpoint):
                raise SubmitRejected(f"the list continues at another host: {_plain_address(link)}", f"GET {path}")
            if link in before or len(before) == _MOST_PAGES:
                raise SubmitRejected("the list does not end", f"GET {path}")
            before.add(link)
            page = _value(self._send("GET", link, path, self._service()), self._service())

    def run_history(self, path: str, **params: object) -> Any:
        """Return the JSON answer of the workspace's run history API to a GET request for `path`, such as
        `/runs/NAME/details`."""
        if self._history is None:
            self._history = self._find_history()
        address, service = self._history, self._service("the run history of Azure Machine Learning", self._history)
        url = f"{address}{_HISTORY}{self.settings.scope}{quote(path)}"
        return _value(self._send("GET", url, path, service, params=_given(params)), service)

    def get_url(self, url: str, start: int = 0) -> bytes:
        """Return the content at the signed storage address `url` from byte `start` on, at most PIECE bytes; b"" if
        there is no more yet. No token is sent. Raise ExpiredAddress if the signature has expired."""
        service = self._service("the storage of Azure", _plain_address(url))
        self._check_scheme(url, service)
        headers = {"range": f"bytes={start}-{start + PIECE - 1}", "accept-encoding": "identity"}
        path = urlsplit(url).path
        answer = self._send("GET", url, path, service, headers=headers, signed=True, accepted=(416,))
        if answer.status_code == 416:
            return b""
        content: bytes = answer.content
        return content if answer.status_code == 206 else content[start : start + PIECE]

    def pause(self, seconds: float) -> None:
        """Wait `seconds` seconds, and call the client's `idle` callback meanwhile."""
        self._exchange.wait_for(lambda: self._sleep(seconds))

    def _find_history(self) -> str:
        """Return the base address of the run history API in the workspace's region, which is read from the workspace's
        discovery address."""
        found = self.get("")
        properties = found.get("properties") if isinstance(found, dict) else None
        discovery = properties.get("discoveryUrl") if isinstance(properties, dict) else None
        service = self._service("the discovery of the workspace", _plain_address(str(discovery)))
        self._check_scheme(discovery, service)
        told = _value(self._send("GET", str(discovery), "discovery", service, signed=True), service)
        address = told.get("api") if isinstance(told, dict) else None
        self._check_scheme(address, service)
        return str(address).rstrip("/")

    def _check_scheme(self, url: object, service: Service) -> None:
        """Raise SubmitRejected if `url`, an address that the service has returned, is not an address, or if its scheme
        is not that of the endpoint."""
        scheme, host, _ = _origin(url)
        if not host or scheme != urlsplit(self.settings.endpoint).scheme:
            raise SubmitRejected(f"{service.name} is not at an https address", service.url)

    def _service(self, name: str = "Azure's resource manager", url: str | None = None) -> Service:
        return Service(name, url or self.settings.endpoint, "`endpoint`", _AUTHORITY)

    def _ask(self, method: str, path: str, body: object, params: Mapping[str, object]) -> Any:
        url = f"{self.settings.endpoint}{self.settings.scope}{quote(path)}"
        given = {"api-version": API_VERSION, **_given(params)}
        content = None if body is None else json.dumps(body).encode()
        headers = {} if content is None else {"content-type": "application/json"}
        service = self._service()
        return _value(self._send(method, url, path, service, params=given, content=content, headers=headers), service)

    def _send(
        self,
        method: str,
        url: str,
        path: str,
        service: Service,
        headers: Mapping[str, str] | None = None,
        signed: bool = False,
        accepted: tuple[int, ...] = (),
        **given: Any,
    ) -> httpx.Response:
        """Send an HTTP request to `service`, again where that is safe, and return the answer if it is a success or has
        one of the `accepted` statuses; raise an error otherwise. With `signed`, no token is sent."""
        require_packages("Azure's client", "azure", "httpx")
        renewed = False

        def send_once(renew: bool = False) -> httpx.Response:
            token = {} if signed else {"authorization": f"Bearer {self._exchange.wait_for(lambda: self._token(renew))}"}
            return self._exchange.send(service, method, url, headers={**(headers or {}), **token}, **given)

        def send() -> httpx.Response:
            nonlocal renewed
            answer = send_once()
            if answer.status_code == 401 and not signed and not renewed:
                renewed = True
                answer = send_once(renew=True)
            if answer.is_success or answer.status_code in accepted:
                return answer
            refused = Answer(answer.status_code, answer.content, answer.reason_phrase, answer.headers, time.time())
            raise response_error(refused, method, path, service, signed)

        return self._exchange.repeat(send, safe=method != "POST")


def _open_http(timeout: httpx.Timeout) -> httpx.Client:
    """Return an HTTP client with the proxies and certificate authorities of the environment. Raise ConfigError if these
    cannot be used."""
    import httpx

    try:
        return httpx.Client(timeout=timeout, headers={"accept": "application/json"})
    except OSError:
        raise ConfigError("SSL_CERT_FILE does not name a file of certificates", "SSL_CERT_FILE", "correct it") from None
    except (ValueError, ImportError, httpx.InvalidURL):
        what = "the proxy in the environment cannot be used"
        raise ConfigError(
            what, "HTTPS_PROXY", "correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: http://HOST:PORT"
        ) from None


def _value(answer: httpx.Response, service: Service) -> Any:
    if not answer.content:
        return None
    try:
        return answer.json()
    except (ValueError, RecursionError):
        said = without_signatures(message_of(answer.content, "no JSON"))[:100]
        raise ConfigError(f"the server that answers is not {service.name}: {said}", service.url, service.mend) from None


def _given(params: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _origin(url: object) -> tuple[str, str | None, int | None]:
    """Return (scheme, host, port) of the URL `url`. The host is None if the text is not an address."""
    try:
        parts = urlsplit(str(url))
        return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return "", None, None


def _plain_address(url: str) -> str:
    """Return the URL `url` without its query, which may contain a signature."""
    return url.partition("?")[0]
