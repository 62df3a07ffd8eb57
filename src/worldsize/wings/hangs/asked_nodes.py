"""The stacks that nodes send when a person requests them. Data is processed as it arrives, is bounded, and is accepted
from each node only for its own ranks."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.common.numbers import parse_digits
from worldsize.compute.capabilities import NodeEvent
from worldsize.logs.text import to_text, without_colours
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks, parse_stacks_line

MOST_BYTES = 16 << 20
"""The maximum number of bytes from one node. A rank with ten threads needs some 20 kB in a look."""

_MOST_ERROR, _MOST_REASON = 4096, 300
_ENDED_BY_US = (128 + signal.SIGTERM, 128 + signal.SIGKILL)


class Unanswered(NamedTuple):
    """A node that has not sent everything. `host` is "" if it has not sent its name. `reason` is in words."""

    node: int
    host: str
    reason: str


class AskedNodes:
    """The answers of nodes. `ranks` contains the ranks of each node, by its number. `looks` is the number of looks at
    each rank."""

    def __init__(self, ranks: Mapping[int, Sequence[int]], looks: int) -> None:
        self._nodes = {node: _AskedNode(frozenset(its), looks) for node, its in ranks.items()}

    def take(self, events: Sequence[NodeEvent]) -> list[str]:
        """Process new events of the command `stacks` on the nodes: their output, errors and ends. Return the compute's
        own messages, for the user."""
        for each in events:
            answer = self._nodes.get(each.node)
            if answer is not None:
                answer.take(each)
        return [_text(each.data) for each in events if each.kind == "note"]

    def look(self, number: int) -> tuple[RankStacks, ...]:
        """Return the stacks of all processes of all ranks in look `number`, from 1, sorted by rank, each rank's own
        Python before its children."""
        found = [stacks for answer in self._nodes.values() for stacks in answer.found[number - 1].values()]
        return tuple(sorted(found, key=lambda each: (each.rank, each.parent is not None, each.pid)))

    def unanswered(self, late: str = "") -> tuple[Unanswered, ...]:
        """Return the nodes that have not sent all stacks of their ranks, each with the reason. `late` is the reason for
        those that were stopped before they had; "" if none was stopped."""
        found = []
        for node, answer in sorted(self._nodes.items()):
            reason = answer.problem(late)
            if reason:
                found.append(Unanswered(node, answer.host, reason))
        return tuple(found)


def _text(data: bytes) -> str:
    return without_colours(to_text(data))


def _words(data: bytes) -> str:
    return _text(data)[:_MOST_REASON].strip()


class _AskedNode:
    """The data that one node has sent so far. `found` contains, for each look, the stacks by rank and pid."""

    def __init__(self, ranks: frozenset[int], looks: int) -> None:
        self.host = ""
        self.found: list[dict[tuple[int, int], RankStacks]] = [{} for _ in range(looks)]
        self._ranks = ranks
        self._rest: list[bytes] = []
        self._left = MOST_BYTES
        self._error = b""
        self._code: int | None = None
        self._lost = ""

    def take(self, event: NodeEvent) -> None:
        if event.kind == "up":
            self.host = _words(event.data)
        elif event.kind == "out":
            self._take_output(event.data)
        elif event.kind == "err":
            self._error = (self._error + event.data)[-_MOST_ERROR:]
        elif event.kind == "end":
            self._code = event.code
        elif event.kind == "lost":
            self._lost = _words(event.data) or "it was lost"

    def problem(self, late: str) -> str:
        """Return the reason why the node has not sent all stacks of its ranks. "" if it has. `late` is the reason for a
        node that was stopped."""
        if self._left < 0:
            return f"it has sent more than {MOST_BYTES >> 20} MiB: the rest is omitted"
        if self._code is None:
            return self._lost or late or "it has not reported its end"
        if late and self._code in _ENDED_BY_US:
            return late
        lines = [line for line in _text(self._error).split("\n") if line.strip()]
        said = lines[-1].strip()[:_MOST_REASON] if lines else f"it ended with code {self._code}"
        return said if self._code else ""

    def _take_output(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._rest = []
            return
        first, *others = data.split(b"\n")
        self._rest.append(first)
        for piece in others:
            self._take_line(b"".join(self._rest))
            self._rest = [piece]

    def _take_line(self, line: bytes) -> None:
        number, _, text = line.partition(b" ")
        look = parse_digits(number.decode("ascii", "replace")) or 0
        stacks = parse_stacks_line(text) if 1 <= look <= len(self.found) else None
        if stacks is not None and stacks.rank in self._ranks:
            self.found[look - 1][stacks.rank, stacks.pid] = stacks
