"""The time that a self-test's tests have, and the time that pytest may take to find them."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.wings.selftest import lanes
from worldsize.wings.selftest.lanes import Order, Run

FOUND = [{"event": "tests", "tests": ["test_a", "test_b"]}]


class SlowLane:
    """A lane whose pytest finds its tests at the third look, or never, and then runs for ever."""

    def __init__(self, order: Order, number: int, environ: dict[str, str]) -> None:
        self.process = self
        self.looks = 0
        self.ended = False

    def read_news(self) -> list[dict[str, Any]]:
        self.looks += 1
        return FOUND if self.looks == 3 and not self.ended else []

    def poll(self) -> int | None:
        return 2 if self.ended else None

    def send_signal(self, number: int) -> None:
        self.ended = True

    def end(self, patience: float) -> None:
        assert self.ended


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run whose time is over from the beginning."""
    monkeypatch.setattr(lanes, "Lane", SlowLane)
    monkeypatch.setattr(lanes, "_POLL", 0.0)
    return Run(Order("", {}, 1, 0.0, 0.0, ""), {}, lambda event: None)


def test_tests_that_are_found_late_are_not_run(run: Run) -> None:
    run.follow()
    assert [(each.name, each.outcome, each.reason) for each in run.all_results(False)] == [
        ("test_a", "not run", "time ran out"),
        ("test_b", "not run", "time ran out"),
    ]


def test_pytest_has_so_long_to_find_tests_and_no_longer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_COLLECTION_PATIENCE", -1.0)
    run.follow()
    assert (run.late, run.results) == (True, {})
