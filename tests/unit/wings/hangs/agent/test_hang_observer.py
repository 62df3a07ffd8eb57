"""What other nodes tell is taken in when the watch is due, where nothing that fails harms the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.rank_variables import Host
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent import watch_node
from worldsize.wings.hangs.agent.observer import TOPIC, HangObserver


@pytest.fixture
def peers() -> Peers:
    return Peers(Host("n1", 1))


def member(peers: Peers, root: Path) -> HangObserver:
    """The observer of a node that is not the head."""
    plan: Any = SimpleNamespace(watchdog_timeout=300.0, agents=[SimpleNamespace(node_rank=each) for each in (0, 1)])
    nothing: Any = None
    return HangObserver(plan, RunPaths(str(root), 0), 1, RankProcesses(), peers, nothing, nothing, 0.0)


def test_a_listener_raises_nothing(peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception there would end the agent, and the run."""
    monkeypatch.setattr(watch_node, "start_program", lambda *words: 1 // 0)
    observer = member(peers, tmp_path)
    observer.part.tick(0.0)
    peers.listeners[TOPIC](0, '{"sample":1,"dumps":false}')
    assert observer.part.deadline() == 0.0
    with pytest.raises(ZeroDivisionError):
        observer.part.tick(1.0)


def test_nobody_listens_after_the_end(peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(watch_node, "start_program", lambda program, order, output: started.append(order) or 4711)
    observer = member(peers, tmp_path)
    for text in ("", "[]", "{", '{"sample":"1"}', '{"sample":1,"dumps":false}'):
        peers.listeners[TOPIC](0, text)
    observer.part.tick(0.0)
    assert len(started) == 1
    observer.close()
    assert TOPIC not in peers.listeners
