"""World sizes to measure: `1x1,1x2,2x2`."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.errors import UsageError
from worldsize.jobspec.job import MAX_RANKS

_MOST = 64
"""The maximum number of worlds. A curve of more points is a mistake."""
_EXAMPLE = "write nodes x ranks per node, such as -w 1x1,1x2,2x2"


class World(NamedTuple):
    """A world size: a number of nodes, and the number of ranks on each of them."""

    nodes: int
    ranks_per_node: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    def __str__(self) -> str:
        return f"{self.nodes}x{self.ranks_per_node}"


def parse_worlds(text: str) -> tuple[World, ...]:
    """Parse the world sizes in `text`, such as `1x1,1x2,2x2`. Return them in the order of their ranks; those with the
    same number of ranks are in the order of their nodes. A number alone is the number of ranks on one node. Raise
    UsageError for a word that is not a world size, for one that is named twice, and for more than 64."""
    parts = text.split(",", _MOST)
    if len(parts) > _MOST:
        raise UsageError(f"more than {_MOST} worlds", "-w", _EXAMPLE)
    worlds = [_parse_world(part) for part in parts]
    twice = next((world for world in worlds if worlds.count(world) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} occurs twice", "-w", "name each world once")
    return tuple(sorted(worlds, key=lambda world: (world.ranks, world.nodes)))


def _parse_world(text: str) -> World:
    first, cross, second = text.strip().lower().replace("×", "x").partition("x")
    words = (first, second) if cross else ("1", first)
    nodes, ranks = (parse_digits(word) if len(word) < 10 else None for word in words)
    if nodes is None or ranks is None:
        raise UsageError(f"{text.strip()!r:.40} is not a world size", "-w", _EXAMPLE)
    if not 0 < nodes * ranks <= MAX_RANKS:
        raise UsageError(f"{text.strip()} has {nodes * ranks} ranks", "-w", f"at least 1, at most {MAX_RANKS}")
    return World(nodes, ranks)


def default_worlds(most: int) -> tuple[World, ...]:
    """Return the worlds of 1, 2, 4 … ranks on one node, with at most `most` ranks. The last one has exactly `most`
    ranks."""
    counts, count = [], 1
    while count < most:
        counts.append(count)
        count *= 2
    return tuple(World(1, each) for each in [*counts, max(most, 1)])
