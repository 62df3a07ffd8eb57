"""What nodes tell of their ranks' stacks: in pieces, of other ranks, too much, or nothing."""

from __future__ import annotations

import pytest
from recorded_stacks import rank_of_frames

from worldsize.compute.capabilities import NodeEvent
from worldsize.wings.hangs import asked_nodes
from worldsize.wings.hangs.asked_nodes import AskedNodes, Unanswered
from worldsize.wings.hangs.judgement.stacks.rank_stacks import stacks_line

LATE = "it has not answered within 60 s"


def line(rank: int, look: int = 1, **fields: object) -> bytes:
    stacks = rank_of_frames(rank, ("main", "/job/train.py", 1), **fields)  # type: ignore[arg-type]
    return b"%d %s\n" % (look, stacks_line(stacks).encode())


def answers(looks: int = 2) -> AskedNodes:
    return AskedNodes({0: (0, 1), 1: (2,)}, looks)


def out(node: int, data: bytes) -> NodeEvent:
    return NodeEvent(node, "out", data)


def test_lines_come_in_pieces_and_of_several_looks() -> None:
    found = answers()
    data = line(0) + line(1) + line(1, pid=7, parent=101) + line(0, look=2)
    found.take([out(0, data[start : start + 7]) for start in range(0, len(data), 7)])
    found.take([out(1, line(2)), NodeEvent(0, "end"), NodeEvent(1, "end")])
    assert [(each.rank, each.pid) for each in found.look(1)] == [(0, 100), (1, 101), (1, 7), (2, 102)]
    assert [each.rank for each in found.look(2)] == [0]
    assert found.unanswered(LATE) == ()


def test_a_node_tells_of_its_own_ranks_in_looks_that_were_asked_for() -> None:
    found = answers()
    bad = b"1\n1 \n 1 []\n1 {}\n0 [] \n1 [1,2]\n\xff \n1 " + b"[" * 100_000 + b"\n"
    found.take([out(0, bad + line(2) + line(99) + line(0, look=3) + line(0, look=0)), out(7, line(0)), out(1, line(2))])
    assert [each.rank for each in found.look(1)] == [2] and found.look(2) == ()


def test_why_a_node_has_not_told_all() -> None:
    found = AskedNodes(dict.fromkeys(range(6), ()), 2)
    said = found.take(
        [
            NodeEvent(0, "up", b"node\x1b[1m0"),
            NodeEvent(0, "end"),
            NodeEvent(1, "err", b"Traceback\nit is too old\n\n"),
            NodeEvent(1, "end", code=1),
            NodeEvent(2, "up", b"n\x1b[1m2"),
            NodeEvent(2, "lost", b"it has sent nothing for 20 s"),
            NodeEvent(3, "end", code=9),
            NodeEvent(4, "lost"),
            NodeEvent(-1, "note", b"srun: \x1b[31mhm"),
        ]
    )
    assert said == ["srun: hm"]
    assert found.unanswered(LATE) == (
        Unanswered(1, "", "it is too old"),
        Unanswered(2, "n2", "it has sent nothing for 20 s"),
        Unanswered(3, "", "it ended with code 9"),
        Unanswered(4, "", "it was lost"),
        Unanswered(5, "", LATE),
    )


def test_a_node_that_was_told_to_end_is_late() -> None:
    found = AskedNodes({0: (), 1: ()}, 1)
    found.take([NodeEvent(0, "err", b"Terminated\n"), NodeEvent(0, "end", code=143)])
    assert [each.reason for each in found.unanswered(LATE)] == [LATE, LATE]
    assert [each.reason for each in found.unanswered()] == ["Terminated", "it has not reported its end"]


def test_a_node_that_says_too_much_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_nodes, "MOST_BYTES", len(line(0)) + 10)
    found = answers()
    found.take([out(0, line(0)), out(0, b"x" * 20), out(0, line(1)), NodeEvent(0, "end"), NodeEvent(1, "end")])
    assert [each.rank for each in found.look(1)] == [0]
    assert [each.reason for each in found.unanswered(LATE)] == ["it has sent more than 0 MiB: the rest is omitted"]


def test_a_line_without_end_takes_time_in_proportion() -> None:
    """Pieces are joined once their line has ended."""
    found = answers()
    for _ in range(20_000):
        found.take([out(0, b"x" * 600)])
    assert found.look(1) == ()
