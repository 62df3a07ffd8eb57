"""The preparations of a node follow one another, on all nodes together, and leave what cannot be ended to nobody."""

from __future__ import annotations

import os
import selectors
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.posix import processes
from worldsize.agent.supervision import node_preparation
from worldsize.agent.supervision.node_preparation import NodePreparations
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.rank_variables import Host


class OtherNodes(Peers):
    """`done`: how many parts all other nodes are done with."""

    def __init__(self) -> None:
        super().__init__(Host("n0", 1))
        self.done = 0
        self.reported = 0

    def report_ready(self, parts: int) -> bool:
        self.reported = parts
        return self.done >= parts


class Part:
    """A preparation that is `ready` when the test says so, and leaves the process `left`."""

    failure = None
    left = ()

    def __init__(self, launch: NodeLaunch, peers: Peers) -> None:
        self.ready = self.stopped = self.closed = False
        self.launch = launch
        self.reading, self.writing = os.pipe()
        made.append(self)

    def fileno(self) -> int:
        return self.reading

    def acknowledge(self) -> None:
        os.read(self.reading, 1)

    def deadline(self) -> float:
        return 7.0

    def tick(self, now: float) -> None:
        self.ready = self.ready or now >= 7.0

    def finish(self, recorder):
        return self.launch._replace(plan="%s, then %d" % (self.launch.plan, len(made)))

    def stop(self):
        self.stopped = True
        os.close(self.reading)
        os.close(self.writing)
        return self.left

    def close(self) -> None:
        self.closed = True


made: list[Part] = []


class Node:
    def __init__(self) -> None:
        launch = NodeLaunch("plan", None, SimpleNamespace(node_rank=0), None, {})  # type: ignore[arg-type]
        self.peers = OtherNodes()
        self.spared: set[int] = set()
        self.selector = selectors.DefaultSelector()
        self.it = NodePreparations(launch, self.peers, self.selector, None, self.spared)  # type: ignore[arg-type]


@pytest.fixture
def node(monkeypatch) -> Iterator[Node]:
    del made[:]
    kind = node_preparation._Kind("any", "anything", lambda plan: True)
    monkeypatch.setattr(node_preparation, "_KINDS", (kind, kind))
    monkeypatch.setattr(node_preparation, "load_module", lambda module, what: SimpleNamespace(Preparation=Part))
    node = Node()
    yield node
    node.it.stop()
    node.selector.close()


def test_the_next_part_begins_when_all_nodes_are_done_with_the_one_before(node):
    """Found: a check began where a disk was ready soon, and called the nodes late that were still copying."""
    node.it.advance()
    made[0].ready = True
    node.it.advance()
    assert len(made) == 1 and node.peers.reported == 1 and made[0].stopped and node.it.part.deadline() is None
    node.peers.done = 1
    node.it.advance()
    assert len(made) == 2 and made[1].launch.plan == "plan, then 1" and not node.it.ready
    made[1].ready = True
    node.it.advance()
    assert node.peers.reported == 2 and not node.it.ready
    node.peers.done = 2
    node.it.advance()
    assert node.it.ready and node.it.launch.plan == "plan, then 1, then 2" and not node.selector.get_map()
    node.it.close()
    assert [part.closed for part in made] == [True, True]


def test_one_that_is_ready_from_the_start_is_not_waited_for(node, monkeypatch):
    monkeypatch.setattr(Part, "fileno", lambda self: 1 / 0)
    monkeypatch.setattr(Part, "ready", property(lambda self: True, lambda self, value: None), raising=False)
    node.peers.done = 2
    node.it.advance()
    assert node.it.ready and len(made) == 2


def test_the_clock_ends_what_takes_too_long(node):
    node.it.advance()
    assert node.it.part.deadline() == 7.0
    node.it.part.tick(6.0)
    node.it.advance()
    assert not made[0].stopped
    node.it.part.tick(7.0)
    node.it.advance()
    assert made[0].stopped


@pytest.mark.parametrize("ready", [False, True])
def test_processes_that_do_not_end_are_spared(node, monkeypatch, ready):
    """Found: a run whose ranks had all ended went on for as long as a dead file server held a check's process."""
    monkeypatch.setattr(Part, "left", (4711,))
    node.it.advance()
    made[0].ready = ready
    if ready:
        node.it.advance()
    else:
        node.it.stop()
        node.it.stop()
    assert node.spared == {4711} and made[0].stopped and not node.selector.get_map()


@pytest.mark.parametrize("at_once", [False, True])
def test_a_spared_process_is_not_waited_for_when_the_ranks_are_gone(monkeypatch, at_once):
    signalled = []
    for name in ("children", "descendants"):
        monkeypatch.setattr(processes, name, lambda: [4711, 4712])
    monkeypatch.setattr(processes, "signal_process", lambda pid, number: signalled.append(pid))
    ranks = RankProcesses()
    ranks.spared.update((4711, 4712))
    assert ranks.end_leftovers(0.0, at_once, 0.0) and signalled == []
    ranks.spared.discard(4712)
    assert not ranks.end_leftovers(0.0, at_once, 0.0) and set(signalled) == {4712}


@pytest.mark.parametrize("finished", [False, True])
def test_what_waits_for_ranks_that_will_not_start_is_ended(node, finished):
    """Found: a run that was cancelled before its ranks started kept the process that they were to be forked from."""
    closed = []
    node.it.launch = node.it.launch._replace(forks=SimpleNamespace(close=lambda: closed.append(True)))
    node.it.advance()
    made[0].ready = finished
    node.it.advance()
    assert closed == []
    node.it.stop()
    node.it.stop()
    assert closed == [True, True]
