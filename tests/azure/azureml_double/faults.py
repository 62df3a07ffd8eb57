"""What goes wrong on demand: the next answers to some requests, in the order they were asked for."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from azureml_double.web import Answer, Refusal, Request


class Fault(NamedTuple):
    """What becomes of the next `times` requests of this method whose `host/path` has the pattern in it.

    status    this one is answered, with `headers`, and nothing is done; 0: it is answered as always
    cut       the connection ends after so many bytes of the body; -1: before the answer, what was asked for is done
    keep      of the body only so many bytes, and the answer looks whole: a half-written log
    delay     seconds before the answer
    skip      so many such requests are answered as always first
    """

    path: str
    method: str = ""
    times: int = 1
    skip: int = 0
    status: int = 0
    headers: Mapping[str, str] = {}
    cut: int | None = None
    keep: int | None = None
    delay: float = 0.0


class Faults:
    """Those still to come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def add(self, fields: Mapping[str, Any]) -> None:
        """Raises Refusal if they are no fault's."""
        try:
            fault = Fault(**fields)
            re.compile(fault.path)
        except (TypeError, re.error) as error:
            raise Refusal(400, "BadFault", str(error)) from None
        with self._lock:
            self._waiting.append(fault)

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def take(self, request: Request) -> Fault | None:
        """The one that befalls this request."""
        with self._lock:
            for number, fault in enumerate(self._waiting):
                asked = "%s%s" % (request.host, request.path)
                if fault.method not in ("", request.method) or not re.search(fault.path, asked):
                    continue
                if fault.skip:
                    self._waiting[number] = fault._replace(skip=fault.skip - 1)
                    return None
                if fault.times > 1:
                    self._waiting[number] = fault._replace(times=fault.times - 1)
                else:
                    del self._waiting[number]
                return fault
        return None


def refusal(fault: Fault) -> Refusal:
    codes = {401: "InvalidAuthenticationToken", 404: "NotFound", 429: "TooManyRequests"}
    return Refusal(fault.status, codes.get(fault.status, "InternalServerError"), "A fault on demand.", fault.headers)


def spoil(answer: Answer, fault: Fault) -> Answer:
    """The answer as the fault leaves it."""
    if fault.keep is not None:
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Range"}
        answer = answer._replace(body=answer.content()[: fault.keep], headers=headers)
    return answer._replace(cut=fault.cut, delay=fault.delay)
