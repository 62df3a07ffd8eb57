"""A client for the head node's REST API. It sends one request at a time over verified TLS, and retries where that is
safe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from worldsize.compute.http.errors import message_of, pause_of
from worldsize.compute.http.exchange import Exchange
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.extras import require_packages
from worldsize.wings.hpcpack.head.certificate_notice import print_certificate_notice
from worldsize.wings.hpcpack.head.errors import head_service, response_error
from worldsize.wings.hpcpack.head.wire import Properties, properties, rows
from worldsize.wings.hpcpack.settings import HeadAccess

if TYPE_CHECKING:
    import ssl

    import httpx

PATIENCE = 75.0
"""Seconds that a head node may be away while something is changed. A restart or a failover to another head takes less
time. The following times are shorter, because a user waits for the answer or the request is made again anyway."""

REQUEST_PATIENCE = 10.0
"""Seconds of patience for lists of nodes and queues."""

CHECK_PATIENCE = 3.0
OBSERVE_PATIENCE = 3.0
NODE_COMMAND_PATIENCE = 5.0
FOLLOW_UP_PATIENCE = 3.0
"""Seconds of patience for checking whether a new job is accepted, and for withdrawing it."""

REQUEUE_PATIENCE = 30.0
"""Seconds to wait until a cancelled job has ended."""

ROWS = 1000
_MOST_PAGES = 10_000
_CONTINUATION_HEADER = "x-ms-continuation-queryid"


class HeadNodeClient:
    """A connection to the head node as one account. `password` is called when the password is needed. `sent` is the
    number of requests so far. `patience` and `idle` are those of Exchange."""

    def __init__(
        self,
        access: HeadAccess,
        password: Callable[[], str],
        patience: float = PATIENCE,
        idle: Callable[[], None] | None = None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access = access
        self.password = password
        self._exchange = Exchange(self._open, patience, idle, now, sleep)

    def __enter__(self) -> HeadNodeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.close()

    @property
    def sent(self) -> int:
        return self._exchange.sent

    def limit_patience(self, seconds: float) -> None:
        """Stop retrying requests to the head node from now on, and wait no longer than `seconds` for an answer."""
        self._exchange.limit_patience(seconds)

    def get(self, path: str, **params: object) -> Any:
        """Send a GET request to the head node's REST API, with retries, and return the JSON value at `path`. `params`
        are the parameters of the query; those that are None are left out. Raise MissingResource, SubmitAgain,
        SubmitRejected or ConfigError."""
        return self._value(self._send_with_retries("GET", path, None, params))

    def post(self, path: str, body: object = None, **params: object) -> Any:
        """Send a POST request, which changes something, to the head node's REST API, and return the JSON value of the
        answer. Raise LostAnswer if the request may have had its effect without an answer. The other errors are those of
        `get`."""
        return self._value(self._send_with_retries("POST", path, body, params))

    def read_job(self, job: int) -> Properties:
        """Return the properties of the HPC Pack job with the number `job`. Head nodes differ in the undocumented ones.
        Raise SubmitAgain if the answer is not understood. The other errors are those of `get`."""
        try:
            return properties(self.get(f"/jobs/{job}"))
        except ValueError as error:
            raise SubmitAgain(f"the head node's answer is not understood: {error}", self.access.url) from None

    def read_rows(self, path: str, **params: object) -> Iterator[Properties]:
        """Yield the properties of each object of a long list at `path` of the head node's REST API, such as the tasks
        of a job. The list is requested in pages of `ROWS` while the head reports that there is more. Raise
        SubmitRejected also if an answer is not understood. The other errors are those of `get`."""
        query: str | None = None
        before: set[str] = set()
        while True:
            answer = self._send_with_retries("GET", path, None, {**params, "rowsPerRead": ROWS, "queryId": query})
            try:
                page = rows(self._value(answer))
            except ValueError as error:
                raise SubmitRejected(f"the head node's answer is not understood: {error}", "GET " + path) from None
            yield from page
            query = answer.headers.get(_CONTINUATION_HEADER)
            if not page or not query or query in before:
                return
            before.add(query)
            if len(before) > _MOST_PAGES:
                raise SubmitRejected("the list does not end", "GET " + path)

    def _value(self, answer: httpx.Response) -> Any:
        if not answer.content:
            return None
        try:
            return answer.json()
        except (ValueError, RecursionError):
            what = f"the server is not an HPC Pack head node: {message_of(answer.content, 'no JSON')[:100]}"
            raise ConfigError(what, self.access.url, "correct `url` of the compute") from None

    def _send_with_retries(self, method: str, path: str, body: object, params: Mapping[str, Any]) -> httpx.Response:
        return self._exchange.repeat(lambda: self._send_once(method, path, body, params), safe=method == "GET")

    def _send_once(self, method: str, path: str, body: object, params: Mapping[str, Any]) -> httpx.Response:
        require_packages("HPC Pack's client", "hpcpack", "httpx")
        given = {name: value for name, value in params.items() if value is not None}
        content = None if body is None else json.dumps(body).encode()
        answer = self._exchange.send(head_service(self.access), method, path, params=given, content=content)
        if answer.is_success:
            return answer
        message = message_of(answer.content, answer.reason_phrase)
        pause = pause_of(answer.headers.get("retry-after", ""), time.time())
        raise response_error(answer.status_code, message, f"{method} {path}", self.access, pause)

    def _open(self, timeout: httpx.Timeout) -> httpx.Client:
        import httpx

        access = self.access
        print_certificate_notice(access)
        headers = {"accept": "application/json", "content-type": "application/json"}
        if access.as_user:
            headers["x-ms-as-user"] = access.as_user
        return httpx.Client(
            base_url=access.base,
            auth=httpx.BasicAuth(access.user, self.password()),
            headers=headers,
            verify=tls_context(access),
            timeout=timeout,
        )


def tls_context(access: HeadAccess) -> ssl.SSLContext:
    """Return the TLS context for connections to the head node, which verifies the head's certificate unless `verify` is
    off. Raise ConfigError if `ca_file` cannot be read or contains no certificate."""
    import ssl

    if not access.verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except ssl.SSLError:
        what = "`ca_file` does not contain a certificate in PEM format"
    except OSError as error:
        what = f"`ca_file` cannot be read: {error.strerror}"
    raise ConfigError(what, access.ca_file, "`ca_file` of the compute names the certificate of the head's authority")
