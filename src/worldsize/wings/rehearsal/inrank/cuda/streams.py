"""The streams and events of torch.cuda. Work is done when it is called, so that every stream is empty and every event
has occurred."""

from __future__ import annotations

import itertools
import time
from typing import Any, Optional

from .. import devices, messages
from ..torch_module import torch
from .devices import do_nothing
from .substitutes import make_refusal, make_substitute


class Stream:
    _numbers = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, *, number: Optional[int] = None, **_: Any) -> None:
        self.device_index = devices.runtime_device(None) if device is None else devices.valid_device(device)
        self.device = torch.device("cuda", self.device_index)
        self.device_type = 1
        self.priority = priority
        self.stream_id = self.cuda_stream = next(Stream._numbers) if number is None else number

    synchronize = wait_stream = wait_event = do_nothing

    @staticmethod
    def priority_range() -> tuple[int, int]:
        return 0, -5

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Optional[Event] = None) -> Event:
        event = Event() if event is None else event
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._with = stream(self)
        self._with.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._with.__exit__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.stream_id) == (other.device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self.device_index, self.stream_id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    def __init__(self, stream_ptr: int, device: Any = None, **_: Any) -> None:
        super().__init__(device, number=stream_ptr)


class Event:
    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, **_: Any
    ) -> None:
        self.enable_timing = enable_timing
        self._recorded: Optional[float] = None

    def record(self, stream: Any = None) -> None:
        devices.begin_cuda()
        self._recorded = time.perf_counter()

    wait = synchronize = do_nothing
    ipc_handle = from_ipc_handle = make_refusal("an event that several processes share")

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds between this event and `end_event`, measured by the CPU's clock. Raise ValueError if
        one of them has no timing, or was not recorded."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError(messages.EVENT_TIMING)
        if self._recorded is None or end_event._recorded is None:
            raise ValueError(messages.EVENT_RECORDED)
        return (end_event._recorded - self._recorded) * 1000


class StreamContext:
    """The context manager that torch.cuda.stream returns: makes a stream and its GPU current inside a `with`."""

    def __init__(self, stream: Optional[Stream]) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._before: Optional[Stream] = None
        self._index = devices.current_index()
        if self.stream is not None:
            self._before = current_stream(self.stream.device_index)
            set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _current[self._before.device_index] = self._before
            devices.make_current(self._index)


_current: dict[int, Stream] = {}


def stream(stream: Optional[Stream]) -> StreamContext:
    return StreamContext(stream)


def set_stream(stream: Optional[Stream]) -> None:
    if stream is not None:
        devices.make_current(stream.device_index)
        _current[stream.device_index] = stream


def current_stream(device: Any = None) -> Stream:
    return _current.get(devices.valid_device(device)) or default_stream(device)


def default_stream(device: Any = None) -> Stream:
    return Stream(device, number=0)


FUNCTIONS: dict[str, Any] = {
    **{each.__name__: each for each in (StreamContext, stream, set_stream, current_stream, default_stream)},
    **{
        each.__name__: make_substitute(getattr(torch.cuda, each.__name__), each, each)
        for each in (Stream, ExternalStream, Event)
    },
    "get_stream_from_external": ExternalStream,
}
"""The functions and classes by their names in torch.cuda."""
