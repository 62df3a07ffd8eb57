"""When the sampling of a node's ranks begins, and that it never ends a run."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize import registry
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.rank_observers import RankSampling
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {}, metrics=True)


class Sampling:
    """One that is planned for `agents` on this machine; `made` and `finished` are the samplers that it has begun and
    ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, agents: int = 1, error: Exception | None = None) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.finished = 0
        self.ranks = RankProcesses()
        self.ranks._running[7] = Process((0,), (), {}, "", ())
        self.error = error
        monkeypatch.setattr(registry, "load_module", lambda name, what: SimpleNamespace(Sampler=self._make))
        self.begun = time.monotonic()
        self.sampling = RankSampling(self.ranks)
        self.sampling.plan_first(PLAN, RunPaths("/none"), PLAN.nodes[0], {}, agents)

    def _make(self, *given: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.made.append(given)
        return SimpleNamespace(finish=self._finish)

    def _finish(self) -> None:
        self.finished += 1

    def tick(self, seconds: float) -> int:
        """Let it be so many seconds after the plan; how many samplers there are."""
        self.sampling.part.tick(self.begun + seconds)
        return len(self.made)


@pytest.mark.parametrize(("agents", "first"), [(1, 2.0), (4, 2.0), (256, 128.0)])
def test_it_begins_once_some_seconds_after_the_ranks(
    monkeypatch: pytest.MonkeyPatch, agents: int, first: float
) -> None:
    found = Sampling(monkeypatch, agents)
    assert found.sampling.part.deadline() == pytest.approx(found.begun + first, abs=0.5)
    assert [found.tick(first - 0.01), found.tick(first + 0.5), found.tick(first + 9)] == [0, 1, 1]
    assert found.sampling.part.deadline() is None
    assert found.made[0][-1] == pytest.approx(first + 0.5, abs=0.5)
    found.sampling.finish()
    assert found.finished == 1


def test_it_does_not_begin_once_the_ranks_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Sampling(monkeypatch)
    found.ranks._running.clear()
    assert [found.tick(3), found.tick(30)] == [0, 0]
    found.sampling.finish()


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), OSError(5, "I/O error"), ImportError("none")]
)
def test_where_it_cannot_begin_the_agents_log_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    found = Sampling(monkeypatch, error=error)
    assert found.tick(3) == 0
    assert found.sampling.part.deadline() is None
    found.sampling.finish()
    assert "is not sampled: %s" % error in capsys.readouterr().err


def test_one_that_was_never_planned_does_nothing() -> None:
    sampling = RankSampling(RankProcesses())
    assert sampling.part.deadline() is None
    sampling.part.tick(1e9)
    sampling.finish()
