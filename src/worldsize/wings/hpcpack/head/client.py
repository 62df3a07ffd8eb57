"""The head node's REST API: one request at a time, over verified TLS, tried again where that is safe."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.extras import require_packages
from worldsize.wings.hpcpack.head.certificate_notice import print_certificate_notice
from worldsize.wings.hpcpack.head.errors import LostAnswer, connection_error, response_error
from worldsize.wings.hpcpack.head.wire import Properties, message_of, properties, rows
from worldsize.wings.hpcpack.settings import HeadAccess

if TYPE_CHECKING:
    import ssl
    from contextlib import AbstractContextManager

    import httpx

PATIENCE = 75.0
"""Seconds that a head node may be away while something is changed: it is restarted, or another one takes over, in less
time. The following are shorter: a user waits for the answer, or the request is made again anyway."""

REQUEST_PATIENCE = 10.0
"""For lists of nodes and queues."""

CHECK_PATIENCE = 3.0
OBSERVE_PATIENCE = 3.0
NODE_COMMAND_PATIENCE = 5.0
FOLLOW_UP_PATIENCE = 3.0
"""For whether a new job is accepted, and to withdraw it."""

REQUEUE_PATIENCE = 30.0
"""Seconds until a job that was cancelled has ended."""

ROWS = 1000
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_CONNECT, _READ = 10.0, 30.0
_IDLE_INTERVAL = 0.1
_LONGEST_ANSWERS = 10
"""How many times as long as the patience for one piece of an answer all of it may take."""

_LARGEST_ANSWER = 256 << 20
_MOST_PAGES = 10_000
_TRANSFER_HEADERS = frozenset(("content-encoding", "content-length", "transfer-encoding"))
_CONTINUATION_HEADER = "x-ms-continuation-queryid"


class HeadNodeClient:
    """A head node, as one account, whose `password` is asked for when it is needed. `sent` counts the requests.

    patience  seconds for which a request is tried again that has had no effect: one that asks, or that never arrived;
              an answer is waited for as long, but 10 s at least and 30 s at most
    idle      called ten times a second while an answer is waited for; what it raises gives the question up
    """

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
        self.sent = 0
        self.password = password
        self._patience = patience
        self._idle = idle
        self._now = now
        self._sleep = sleep
        self._timeouts = (_CONNECT, max(_CONNECT, min(patience, _READ)))
        self._http: httpx.Client | None = None

    def __enter__(self) -> HeadNodeClient:
        return self

    def __exit__(self, *_: object) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def limit_patience(self, seconds: float) -> None:
        """From now on try nothing again, and wait no longer than `seconds` for an answer."""
        self._patience = 0.0
        self._timeouts = (seconds, seconds)
        if self._http is not None:
            self._http.timeout = seconds

    def get(self, path: str, **params: object) -> Any:
        """Return what is at `path`. MissingResource, SubmitAgain, SubmitRejected, ConfigError."""
        return self._value(self._send_with_retries("GET", path, None, params))

    def post(self, path: str, body: object = None, **params: object) -> Any:
        """Send a request that changes something, and return the answer. LostAnswer where it may have had its effect
        without an answer; otherwise as `get`."""
        return self._value(self._send_with_retries("POST", path, body, params))

    def read_job(self, job: int) -> Properties:
        """Return a job's properties; heads differ in those beside the documented ones. As `get`; SubmitAgain for an
        answer that is not understood."""
        try:
            return properties(self.get(f"/jobs/{job}"))
        except ValueError as error:
            raise SubmitAgain(f"the head node's answer is not understood: {error}", self.access.url) from None

    def read_rows(self, path: str, **params: object) -> Iterator[Properties]:
        """Yield the properties of each object of a long list, which is asked for `ROWS` at a time, for as long as the
        head says that there is more. As `get`; SubmitRejected also for an answer that is not understood."""
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
                raise SubmitRejected("the list has no end", "GET " + path)

    def _value(self, answer: httpx.Response) -> Any:
        if not answer.content:
            return None
        try:
            return answer.json()
        except (ValueError, RecursionError):
            what = f"what answers is no HPC Pack head node: {message_of(answer.content, 'no JSON')[:100]}"
            raise ConfigError(what, self.access.url, "mend `url` of the compute") from None

    def _send_with_retries(self, method: str, path: str, body: object, params: Mapping[str, Any]) -> httpx.Response:
        deadline, pause = self._now() + self._patience, _FIRST_PAUSE
        while True:
            try:
                return self._send_once(method, path, body, params)
            except SubmitAgain as error:
                safe = method == "GET" or not isinstance(error, LostAnswer)
                if not safe or self._now() + pause > deadline:
                    raise
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _wait(self, seconds: float) -> None:
        end = self._now() + seconds
        while self._idle is not None and self._now() + _IDLE_INTERVAL < end:
            self._sleep(_IDLE_INTERVAL)
            self._idle()
        self._sleep(max(0.0, end - self._now()))

    def _send_once(self, method: str, path: str, body: object, params: Mapping[str, Any]) -> httpx.Response:
        require_packages("HPC Pack's client", "hpcpack", "httpx")
        import httpx

        http = self._open()
        self.sent += 1
        given = {name: value for name, value in params.items() if value is not None}
        content = None if body is None else json.dumps(body).encode()
        try:
            answer = self._send_in_thread(
                lambda: self._read_response(http.stream(method, path, params=given, content=content))
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise connection_error(error, False, self.access) from None
        except httpx.TransportError as error:
            raise connection_error(error, not isinstance(error, httpx.ProxyError), self.access) from None
        except httpx.InvalidURL as error:
            raise ConfigError(f"is no address: {error}", self.access.url, "mend `url` of the compute") from None
        if answer.is_success:
            return answer
        message = message_of(answer.content, answer.reason_phrase)
        raise response_error(answer.status_code, message, f"{method} {path}", self.access)

    def _read_response(self, stream: AbstractContextManager[httpx.Response]) -> httpx.Response:
        """Read the answer to its end, within bounds of size and time: a server could put the end off for ever."""
        import httpx

        with stream as answer:
            deadline, data = self._now() + _LONGEST_ANSWERS * self._timeouts[1], bytearray()
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > _LARGEST_ANSWER:
                    raise httpx.ReadError(f"the answer is larger than {_LARGEST_ANSWER} bytes")
                if self._now() > deadline:
                    raise httpx.ReadTimeout("the answer does not come to its end")
        headers = [each for each in answer.headers.multi_items() if each[0].lower() not in _TRANSFER_HEADERS]
        return httpx.Response(answer.status_code, headers=headers, content=bytes(data), request=answer.request)

    def _send_in_thread(self, ask: Callable[[], httpx.Response]) -> httpx.Response:
        """Return what `ask` returns, and call `idle` meanwhile. A thread that is given up does not keep this process
        from ending, as an executor's would."""
        if self._idle is None:
            return ask()
        from concurrent.futures import Future, wait
        from threading import Thread

        answer: Future[httpx.Response] = Future()

        def set_answer() -> None:
            try:
                answer.set_result(ask())
            except Exception as error:  # noqa: BLE001 - raised below
                answer.set_exception(error)

        Thread(target=set_answer, daemon=True).start()
        while wait([answer], _IDLE_INTERVAL).not_done:
            self._idle()
        return answer.result()

    def _open(self) -> httpx.Client:
        if self._http is None:
            import httpx

            access = self.access
            print_certificate_notice(access)
            headers = {"accept": "application/json", "content-type": "application/json"}
            if access.as_user:
                headers["x-ms-as-user"] = access.as_user
            self._http = httpx.Client(
                base_url=access.base,
                auth=httpx.BasicAuth(access.user, self.password()),
                headers=headers,
                verify=tls_context(access),
                timeout=httpx.Timeout(self._timeouts[1], connect=self._timeouts[0]),
            )
        return self._http


def tls_context(access: HeadAccess) -> ssl.SSLContext:
    """The TLS context that verifies the head's certificate, or does not. ConfigError for a ca_file without one."""
    import ssl

    if not access.verify:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    try:
        return ssl.create_default_context(cafile=access.ca_file)
    except ssl.SSLError:
        what = "`ca_file` holds no certificate in PEM format"
    except OSError as error:
        what = f"`ca_file` cannot be read: {error.strerror}"
    raise ConfigError(what, access.ca_file, "`ca_file` of the compute names the certificate of the head's authority")
