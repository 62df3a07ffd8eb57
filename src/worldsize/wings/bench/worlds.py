"""World sizes to measure: `1x1,1x2,2x2`."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class World(NamedTuple):
    """So many nodes with so many ranks each."""

    nodes: int
    ranks_per_node: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    def __str__(self) -> str:
        return f"{self.nodes}x{self.ranks_per_node}"
