"""When a node's agent has the node looked at, for which nodes, and that it never ends a run."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize import registry
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.posix import processes
from worldsize.agent.supervision.rank_observers import NodeFactsHelper, RankObservers
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(3, 1), ("true",), {})
RANK = Process((0,), ("true",), {}, "", ())


class Finding:
    """One that is planned; `started` are the nodes of each process that it has started, `killed` those that it has
    ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None, missing: bool = False) -> None:
        self.started: list[Any] = []
        self.killed: list[tuple[int, int]] = []
        self.ranks = RankProcesses()
        self.ranks._running[7] = RANK
        self.error = error
        wing = None if missing else SimpleNamespace(start_helper=self._start)
        monkeypatch.setattr(registry, "find_module", lambda name: wing)
        monkeypatch.setattr(processes, "signal_process", lambda pid, number: self.killed.append((pid, number)))
        self.begun = time.monotonic()
        self.helper = NodeFactsHelper(self.ranks)
        self.helper.plan_start(PLAN, RunPaths("/none"), [0, 1], {})

    def _start(self, plan: Plan, paths: RunPaths, nodes: list[int], rank: Process, environ: dict[str, str]) -> int:
        if self.error is not None:
            raise self.error
        assert rank is RANK
        self.started.append(nodes)
        return 99

    def tick(self, seconds: float) -> int:
        """Let it be so many seconds after the plan; how many processes were started."""
        self.helper.part.tick(self.begun + seconds)
        return len(self.started)


def test_it_begins_once_a_moment_after_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(monkeypatch)
    assert found.helper.part.deadline() == pytest.approx(found.begun + 0.5, abs=0.4)
    assert [found.tick(0.1), found.tick(1.0), found.tick(9.0)] == [0, 1, 1]
    assert found.started == [[0, 1]]
    assert found.helper.part.deadline() is None
    assert found.ranks.spared == {99}
    found.helper.finish()
    assert found.killed == [(99, signal.SIGKILL)]


def test_a_process_that_has_ended_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(monkeypatch)
    found.tick(1.0)
    found.ranks.spared.clear()  # it was reaped: its number may be another's
    found.helper.finish()
    assert found.killed == []


def test_ranks_that_are_over_pay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Finding(monkeypatch)
    found.ranks._running.clear()
    assert found.tick(1.0) == 0
    found.helper.finish()
    assert found.killed == []


@pytest.mark.parametrize("error", [OSError("no process"), RuntimeError("?")])
def test_nothing_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert Finding(monkeypatch, error).tick(1.0) == 0
    assert capsys.readouterr().err == "the node's hardware is not recorded: %s\n" % error


def test_an_installation_without_the_wing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert Finding(monkeypatch, missing=True).tick(1.0) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("node", "local", "nodes"), [(0, True, [0, 1, 2]), (1, True, None), (0, False, [0]), (2, False, [2])]
)
def test_which_agent_looks_for_which_nodes(
    monkeypatch: pytest.MonkeyPatch, node: int, local: bool, nodes: list[int] | None
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(NodeFactsHelper, "plan_start", lambda self, *values: given.append(values[2]))
    paths = RunPaths("/none")
    observers = RankObservers(RankProcesses(), NodeRecorder(paths, node, 1))
    observers.plan(PLAN, paths, PLAN.nodes[node], {}, 3, local)
    assert given == ([nodes] if nodes else [])
