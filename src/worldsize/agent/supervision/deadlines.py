"""What a supervisor must do, or decide, at a time: parts with deadlines. Pure: each is told the time (monotonic)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from worldsize.common.named_tuple import NamedTuple


class Part(NamedTuple):
    """`deadline`: when `tick` has something to do next; None while nothing is due. `tick` may be called at any time."""

    deadline: Callable[[], float | None]
    tick: Callable[[float], None]


def seconds_until_due(parts: Sequence[Part], now: float, longest: float) -> float:
    """How long to wait for other things than these: until the first deadline, and for `longest` seconds at most."""
    moments = [moment for part in parts for moment in (part.deadline(),) if moment is not None]
    return max(0.0, min([longest, *(moment - now for moment in moments)]))


class Deadline:
    """One moment, passed once: `is_passed` is true for the first call from then on, and for no other."""

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
    """Whether this process has not run for so long that the silence of others may be its own: `paused` seconds."""
    return paused > silence / 2


class Suspension:
    """Whether this process has stood still itself: the others may have given it up meanwhile.

    `allowed`: seconds between two calls of `notice` beyond which it has. `seconds`: how long the last time was.
    """

    def __init__(self, now: float, allowed: float) -> None:
        self.seconds = 0.0
        self._allowed = allowed
        self._ran_at = self._resumed_at = now

    def notice(self, now: float) -> float:
        """That it runs now; how many seconds it has not."""
        paused, self._ran_at = now - self._ran_at, now
        if paused > self._allowed:
            self.seconds, self._resumed_at = paused, now
        return paused

    def is_recent(self, now: float, within: float) -> bool:
        """Whether it went on less than so many seconds ago: what it is told then may be an answer to its silence."""
        return self.seconds > 0 and now - self._resumed_at < within


class StoppedAgents:
    """Agents that somebody has stopped (SIGSTOP). One that stays so for longer than `silence` seconds cannot supervise:
    it counts as lost, as a silent node does."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._since: dict[int, float] = {}

    def record(self, pids: Iterable[int], now: float) -> None:
        """That these have been stopped just now, whether or not they were before."""
        self._since.update(dict.fromkeys(pids, now))

    def overdue(self, now: float, is_stopped: Callable[[int], bool]) -> list[int]:
        """Those that count as lost; who `is_stopped` no longer is forgotten."""
        self._since = {pid: since for pid, since in self._since.items() if is_stopped(pid)}
        return [pid for pid, since in self._since.items() if now - since > self._silence]
