"""A clock that goes when it is told to."""

from __future__ import annotations


class Clock:
    """Called, it says the time, in seconds; the tests set `now`, or add to it."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
