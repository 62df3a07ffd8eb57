"""What a supervisor must do, or decide, at a certain time: parts with deadlines.

Pure: functions take the time, in seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple


class Part(NamedTuple):
    """One thing that is due by the clock.

    deadline  when `tick` has something to do next; None while nothing is planned
    tick      does it, given the time; may be called earlier, and then does nothing
    """

    deadline: Callable[[], float | None]
    tick: Callable[[float], None]


def seconds_until_due(parts: Sequence[Part], now: float, longest: float) -> float:
    """Seconds until the first deadline, at most `longest` and at least 0."""
    moments = [moment for part in parts for moment in (part.deadline(),) if moment is not None]
    return max(0.0, min([longest, *(moment - now for moment in moments)]))


class Deadline:
    """A time that can pass once: `is_passed` is true for the first call from then on, and for no other."""

    def __init__(self, at: float | None = None) -> None:
        self.at = at

    def deadline(self) -> float | None:
        return self.at

    def is_passed(self, now: float) -> bool:
        if self.at is None or now < self.at:
            return False
        self.at = None
        return True


def is_silence_excused(paused: float, silence: float) -> bool:
    """Return whether this process itself has not run for so long, `paused` seconds, that the silence of others proves
    nothing."""
    return paused > silence / 2


class Suspension:
    """The time in which this process itself did not run: the others may have given it up meanwhile.

    `allowed`: the longest time between two calls of `notice` that does not count. `seconds`: how long the latest
    suspension was; 0 without one.
    """

    def __init__(self, now: float, allowed: float) -> None:
        self.seconds = 0.0
        self._allowed = allowed
        self._ran_at = self._resumed_at = now

    def notice(self, now: float) -> float:
        """Record that the process runs now; the seconds since it was last known to."""
        paused, self._ran_at = now - self._ran_at, now
        if paused > self._allowed:
            self.seconds, self._resumed_at = paused, now
        return paused

    def is_recent(self, now: float, within: float) -> bool:
        """Return whether the latest suspension ended less than `within` seconds ago: an order that arrives then may be
        the others' answer to it."""
        return self.seconds > 0 and now - self._resumed_at < within


class StoppedAgents:
    """Agents that are stopped (SIGSTOP). One that stays so for longer than `silence` seconds cannot supervise: it
    counts as lost, as a silent node does."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._since: dict[int, float] = {}

    def record(self, pids: Iterable[int], now: float) -> None:
        """Record that these have been stopped at `now`, whether or not they were before."""
        self._since.update(dict.fromkeys(pids, now))

    def overdue(self, now: float, is_stopped: Callable[[int], bool]) -> list[int]:
        """Return the agents that count as lost. Those for which `is_stopped` is false run again, and are forgotten."""
        self._since = {pid: since for pid, since in self._since.items() if is_stopped(pid)}
        return [pid for pid, since in self._since.items() if now - since > self._silence]
