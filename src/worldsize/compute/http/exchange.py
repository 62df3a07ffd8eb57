"""Requests and answers over HTTP, for computes that are behind a service: bounded in size and time, and retried with
growing pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from worldsize.common.debug_notes import note_decision
from worldsize.common.named_tuple import Any
from worldsize.compute.http.errors import LostAnswer, Service, Unanswered, connection_error
from worldsize.errors import ConfigError, SubmitAgain

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import httpx

_T = TypeVar("_T")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_CONNECT, _READ = 10.0, 30.0
_IDLE_INTERVAL = 0.1
_LONGEST_ANSWERS = 10
"""The factor by which a whole answer may take longer than the timeout for one piece of it."""

_LARGEST_ANSWER = 256 << 20
_TRANSFER_HEADERS = frozenset(("content-encoding", "content-length", "transfer-encoding"))


class Exchange:
    """Requests by one `httpx.Client`, which `open_http` returns for its timeouts when the first request is sent. `sent`
    counts them.

    patience  seconds for which a request that has had no effect is retried: one that only reads, or that never arrived;
              also the timeout for an answer, but at least 10 s and at most 30 s
    idle      called ten times a second during a wait; an exception from it abandons the request
    """

    def __init__(
        self,
        open_http: Callable[[httpx.Timeout], httpx.Client],
        patience: float,
        idle: Callable[[], None] | None,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self.sent = 0
        self.now = now
        self._open_http = open_http
        self._patience = patience
        self._idle = idle
        self._sleep = sleep
        self._timeouts = (_CONNECT, max(_CONNECT, min(patience, _READ)))
        self._http: httpx.Client | None = None

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    def limit_patience(self, seconds: float) -> None:
        """Disable retries of HTTP requests from now on, and limit the wait for each answer to `seconds`."""
        self._patience = 0.0
        self._timeouts = (seconds, seconds)
        if self._http is not None:
            self._http.timeout = seconds

    def repeat(self, send: Callable[[], _T], safe: bool) -> _T:
        """Call `send`, which sends an HTTP request, and return its result. While the patience lasts, call it again if
        it raises SubmitAgain. After a LostAnswer, call it again only if the request is `safe`: it changes nothing, or
        has the same effect each time that it is sent."""
        deadline, pause = self.now() + self._patience, _FIRST_PAUSE
        while True:
            try:
                return send()
            except SubmitAgain as error:
                wanted = max(pause, error.pause if isinstance(error, Unanswered) else 0.0)
                if (isinstance(error, LostAnswer) and not safe) or self.now() + wanted > deadline:
                    raise
            self._wait(wanted)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def send(self, service: Service, method: str, url: str, **given: Any) -> httpx.Response:
        """Send one HTTP request to `service` and return the whole answer, for any status. `given` is as in
        `httpx.Client.stream`. Raise LostAnswer if the request may have arrived; raise SubmitAgain if it did not; raise
        ConfigError if an address or a certificate is wrong; raise also what `open_http` raises."""
        import httpx

        if self._http is None:
            self._http = self._open_http(httpx.Timeout(self._timeouts[1], connect=self._timeouts[0]))
        http = self._http
        self.sent += 1
        began = self.now()
        try:
            answer = self.wait_for(lambda: self._read_response(http.stream(method, url, **given)))
            place = url.partition("?")[0]
            note_decision(f"{method} {place}: {answer.status_code} after {self.now() - began:.3f} s")
            return answer
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise connection_error(error, False, service) from None
        except httpx.RequestError as error:
            raise connection_error(error, not isinstance(error, httpx.ProxyError), service) from None
        except httpx.InvalidURL as error:
            raise ConfigError(f"is not an address: {error}", service.url, service.mend) from None

    def wait_for(self, ask: Callable[[], _T]) -> _T:
        """Call the function `ask` in a thread, call `idle` ten times a second meanwhile, and return the result of
        `ask`. Without `idle`, only call `ask`. An abandoned thread does not prevent this process from ending, as an
        executor's thread would."""
        if self._idle is None:
            return ask()
        from concurrent.futures import Future, wait
        from threading import Thread

        answer: Future[_T] = Future()

        def set_answer() -> None:
            try:
                answer.set_result(ask())
            except Exception as error:  # noqa: BLE001 - raised below
                answer.set_exception(error)

        Thread(target=set_answer, daemon=True).start()
        while wait([answer], _IDLE_INTERVAL).not_done:
            self._idle()
        return answer.result()

    def _wait(self, seconds: float) -> None:
        end = self.now() + seconds
        while self._idle is not None and self.now() + _IDLE_INTERVAL < end:
            self._sleep(_IDLE_INTERVAL)
            self._idle()
        self._sleep(max(0.0, end - self.now()))

    def _read_response(self, stream: AbstractContextManager[httpx.Response]) -> httpx.Response:
        """Read an HTTP answer to its end and return it. Size and time are limited, because a server could delay the end
        forever. Raise ReadError or ReadTimeout of httpx if a limit is exceeded."""
        import httpx

        with stream as answer:
            deadline, data = self.now() + _LONGEST_ANSWERS * self._timeouts[1], bytearray()
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > _LARGEST_ANSWER:
                    raise httpx.ReadError(f"the answer is larger than {_LARGEST_ANSWER} bytes")
                if self.now() > deadline:
                    raise httpx.ReadTimeout("the answer does not end")
        headers = [each for each in answer.headers.multi_items() if each[0].lower() not in _TRANSFER_HEADERS]
        return httpx.Response(answer.status_code, headers=headers, content=bytes(data), request=answer.request)
