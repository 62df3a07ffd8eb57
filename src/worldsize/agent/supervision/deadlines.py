"""Parts with deadlines: actions and decisions of a supervisor that are due at a certain time.

Pure: functions take the time, in seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple


class Part(NamedTuple):
    """A part of the supervisor that acts by the clock.

    deadline  returns the time of the next action of `tick`; None while none is planned
    tick      performs the action that is due at the given time; does nothing if it is called earlier
    """

    deadline: Callable[[], float | None]
    tick: Callable[[float], None]


def seconds_until_due(parts: Sequence[Part], now: float, longest: float) -> float:
    """Return the seconds from `now` until the first deadline of these parts of the supervisor, at most `longest` and at
    least 0."""
    moments = [moment for part in parts for moment in (part.deadline(),) if moment is not None]
    return max(0.0, min([longest, *(moment - now for moment in moments)]))


class Deadline:
    """A time that passes once: `is_passed` returns true for the first call at or after that time, and for no other."""

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
    """Return whether this process itself was paused for so long, more than half of `silence` seconds, that the silence
    of other nodes proves nothing."""
    return paused > silence / 2


class Suspension:
    """The time in which this process itself did not run. The other nodes may have declared it lost meanwhile.

    `allowed` is the longest time between two calls of `notice` that does not count as a suspension. `seconds` is the
    length of the latest suspension; 0 if there was none.
    """

    def __init__(self, now: float, allowed: float) -> None:
        self.seconds = 0.0
        self._allowed = allowed
        self._ran_at = self._resumed_at = now

    def notice(self, now: float) -> float:
        """Record that this process runs at `now`. Return the seconds since the last call. More than the allowed number
        of seconds count as a suspension of the process."""
        paused, self._ran_at = now - self._ran_at, now
        if paused > self._allowed:
            self.seconds, self._resumed_at = paused, now
        return paused

    def is_recent(self, now: float, within: float) -> bool:
        """Return whether the latest suspension of this process ended less than `within` seconds before `now`. An order
        that arrives then may be the other nodes' reaction to the suspension."""
        return self.seconds > 0 and now - self._resumed_at < within


class StoppedAgents:
    """Agents that are stopped (SIGSTOP). An agent that stays stopped for longer than `silence` seconds cannot supervise
    its node: it counts as lost, as a silent node does."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._since: dict[int, float] = {}

    def record(self, pids: Iterable[int], now: float) -> None:
        """Record that the agents with these pids were stopped (SIGSTOP) at `now`, whether or not they were stopped
        before."""
        self._since.update(dict.fromkeys(pids, now))

    def overdue(self, now: float, is_stopped: Callable[[int], bool]) -> list[int]:
        """Return the pids of the agents that have been stopped (SIGSTOP) for so long that they count as lost. Agents
        for which `is_stopped` is false run again, and are forgotten."""
        self._since = {pid: since for pid, since in self._since.items() if is_stopped(pid)}
        return [pid for pid, since in self._since.items() if now - since > self._silence]
