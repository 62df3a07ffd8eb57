"""The sign of life between agents, and what is checked with it, by a clock that the tests move."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.outcome.verdict import NODE_LOST, PeerVerdict, Verdict, lost_node_verdict
from worldsize.agent.supervision.heartbeat import BEATS_PER_SILENCE, Heartbeat
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.run_end import RunEnd
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host
from worldsize.plan.run_paths import RunPaths


class CountedPeers(Peers):
    def __init__(self) -> None:
        super().__init__(Host("n", 1))
        self.beats: list[float] = []
        self.lost: list[PeerVerdict] = []
        self.joined = True

    def send_heartbeat(self, silence: float) -> list[PeerVerdict]:
        self.beats.append(silence)
        return self.lost

    @property
    def has_joined(self) -> bool:
        return self.joined


class Records:
    full = False

    def __init__(self) -> None:
        self.events: list[str] = []

    def write_event(self, kind: str, **fields: Any) -> None:
        self.events.append(kind)

    def is_replaced(self) -> bool:
        return False

    def is_cancel_requested(self) -> bool:
        return False


class Beating:
    """A node whose heart beats from 0.0 s on."""

    def __init__(self, silence: float = 90.0, hang_timeout: float = 0.0) -> None:
        layout = node_major_layout(2, 1)
        plan = Plan("r", "t", "lab", 0.0, 0, layout, ("x",), {}, silence=silence, hang_timeout=hang_timeout)
        self.peers, self.records, ranks = CountedPeers(), Records(), RankProcesses()
        self.end = RunEnd(1.0, ranks, self.peers, self.records)  # type: ignore[arg-type]
        paths = RunPaths("/no/such/run")
        self.beat = Heartbeat(plan, paths, ranks, self.peers, self.records, self.end, 0.0)  # type: ignore[arg-type]

    def at(self, *moments: float) -> list[float]:
        for now in moments:
            self.beat.part.tick(now)
        return self.peers.beats

    @property
    def verdict(self) -> Verdict | None:
        return self.end.verdict


@pytest.mark.parametrize(("silence", "hang", "every"), [(90.0, 0.0, 10.0), (90.0, 45.0, 5.0), (90.0, 900.0, 10.0)])
def test_it_beats_several_times_in_the_shortest_time_that_matters(silence: float, hang: float, every: float) -> None:
    node = Beating(silence, hang)
    assert node.beat.every == every == min(silence, hang or silence) / BEATS_PER_SILENCE
    assert node.at(every - 0.1) == [] and node.beat.part.deadline() == every
    assert node.at(every) == [silence] and node.beat.part.deadline() == 2 * every


def test_a_beat_that_comes_late_is_one_beat() -> None:
    node = Beating()
    assert node.at(75.0, 75.1) == [90.0] and node.beat.part.deadline() == 85.0


def test_nodes_that_have_fallen_silent_end_the_run() -> None:
    node = Beating()
    node.peers.lost = [PeerVerdict(lost_node_verdict(NODE_LOST, 1, "its agent has sent nothing for 90 s", "b"))]
    node.at(10.0)
    assert node.verdict is not None and node.verdict.why == NODE_LOST
    assert "node 1 (b)" in (node.verdict.failure.message if node.verdict.failure else "")


def test_a_full_disk_ends_the_run() -> None:
    node = Beating()
    node.records.full = True
    node.at(10.0)
    assert node.verdict is not None and node.verdict.why == "storage"


def test_a_node_that_has_not_joined_says_so_once() -> None:
    node = Beating()
    node.at(10.0)
    assert node.records.events == []
    node.peers.joined = False
    node.at(20.0, 30.0)
    assert node.records.events == ["unjoined"]
