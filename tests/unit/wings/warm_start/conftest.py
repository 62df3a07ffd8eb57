"""A node for each test of what is forked. This process is the agent: it adopts the forks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preloaded_node import Node

from worldsize.agent.posix import processes


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Node]]:
    """Makes nodes, each in a place of its own."""
    made: list[Node] = []

    def make(**keys: str) -> Node:
        place = tmp_path / ("node-%d" % len(made))
        place.mkdir()
        made.append(Node(place, **keys))
        return made[-1]

    monkeypatch.chdir(tmp_path)
    processes.become_subreaper()
    before = set(processes.children())
    yield make
    for node in made:
        node.close()
    for pid in set(processes.children()) - before:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    processes._prctl(processes._PR_SET_CHILD_SUBREAPER, 0)


@pytest.fixture
def node(nodes: Callable[..., Node]) -> Node:
    return nodes()
