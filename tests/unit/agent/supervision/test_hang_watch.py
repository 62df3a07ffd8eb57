"""What goes wrong in the watch over a run that may hang ends the watch, and not the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize import registry
from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.supervision import hang_watch
from worldsize.agent.supervision.hang_watch import HangWatch
from worldsize.plan.rank_variables import Host
from worldsize.plan.run_paths import RunPaths


class Observer:
    """One that fails as soon as it is due, or as it is closed."""

    def __init__(self, *given: Any) -> None:
        self.part = SimpleNamespace(deadline=lambda: 0.0, tick=self._tick)
        self.closed = 0

    def _tick(self, now: float) -> None:
        raise AttributeError("this Python has no such function")

    def close(self) -> None:
        self.closed += 1
        raise ValueError("neither this")


def test_what_runs_for_a_watch_that_failed_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    observer = Observer()
    noted: list[str] = []
    monkeypatch.setattr(registry, "find_module", lambda name: SimpleNamespace(HangObserver=lambda *given: observer))
    monkeypatch.setattr(hang_watch, "note", noted.append)
    ranks: Any = SimpleNamespace(spared=set())
    recorder: Any = None
    end: Any = SimpleNamespace(verdict=None)
    watch = HangWatch(ranks, Peers(Host("n", 1)), recorder, end)
    plan: Any = SimpleNamespace(watchdog_timeout=1.0)
    watch.plan_first(plan, RunPaths(str(tmp_path), 0), 0)
    begins = watch.part.deadline()
    assert begins is not None
    watch.part.tick(begins)
    watch.part.tick(begins)
    assert observer.closed == 1 and watch.part.deadline() is None
    assert noted[0] == "the watchdog has failed, and no longer detects hangs: this Python has no such function"
    watch.finish()
    assert observer.closed == 1
