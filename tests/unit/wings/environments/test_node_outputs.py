"""The output of each node, by the events of a command's stream."""

from __future__ import annotations

import pytest

from worldsize.compute.capabilities import NodeEvent
from worldsize.wings.environments.nodes import NodeOutput, _read_outputs

NOTES = [NodeEvent(-1, "note", b"waits for nodes"), NodeEvent(-1, "note", b"srun: no such node")]


class Stream:
    """A stream that gives all its events at once."""

    def __init__(self, events: list[NodeEvent]) -> None:
        self._left = [events]
        self.closed = False

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        return self._left.pop() if self._left else None

    def stop(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    "events, found",
    [
        ([], NodeOutput("0", None, "", "it was lost: it did not report its end")),
        (NOTES, NodeOutput("0", None, "", "it was lost: srun: no such node")),
        ([*NOTES, NodeEvent(0, "lost", b"it fell")], NodeOutput("0", None, "", "it was lost: it fell")),
        ([*NOTES, NodeEvent(0, "end", code=7)], NodeOutput("0", 7, "", "srun: no such node")),
        (
            [
                NodeEvent(0, "up", b"n1"),
                NodeEvent(0, "out", b"a\xc3"),
                NodeEvent(0, "err", b"e"),
                *NOTES,
                NodeEvent(0, "out", b"\xa4"),
                NodeEvent(0, "end", code=1),
            ],
            NodeOutput("n1", 1, "aä", "e"),
        ),
    ],
)
def test_what_is_told_of_a_node(events: list[NodeEvent], found: NodeOutput) -> None:
    stream = Stream(events)
    assert _read_outputs(stream, 1) == [found] and stream.closed


def test_a_node_that_never_began_has_the_name_that_it_was_asked_by() -> None:
    assert [each.name for each in _read_outputs(Stream([NodeEvent(0, "up", b"host1")]), 2, ["cn01", "cn02"])] == [
        "host1",
        "cn02",
    ]
