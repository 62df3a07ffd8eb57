"""What the head does with what nodes tell: it asks, keeps, judges and tells, and keeps nothing of a run that works."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent import watch_head
from worldsize.wings.hangs.agent.watch_head import WatchedRun
from worldsize.wings.hangs.judgement.watch import LONGEST_GAP, NodeSigns

LIMIT = 300.0
JUDGE = 4711


class Head:
    """A watched run of two nodes of one rank each, whose judge says what the test wants. Times are the test's."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, action: str) -> None:
        self.asked: list[tuple[int, bool]] = []
        self.orders: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.decided: list[str] = []
        self.spared: set[int] = set()
        self.paths = RunPaths(str(root), 0)
        os.makedirs(os.path.dirname(self.paths.judged), exist_ok=True)
        plan: Any = SimpleNamespace(watchdog_timeout=LIMIT, watchdog_action=action, world_size=2)
        recorder: Any = SimpleNamespace(write_event=self._write_event)
        monkeypatch.setattr(watch_head, "start_program", self._start)
        self.run = WatchedRun(
            plan,
            self.paths,
            recorder,
            self.spared,
            lambda number, dumps: self.asked.append((number, dumps)),
            self.decided.append,
            0.0,
        )

    def _write_event(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, **fields})

    def _start(self, program: str, order: str, output: str) -> int:
        self.orders.append(json.loads(order))
        return JUDGE

    def tell(self, silent: float, now: float) -> None:
        """Both nodes' signs of life."""
        for node in (0, 1):
            self.run.hear(node, {"signs": NodeSigns(silent, True, (node,))._asdict()})
        self.run.step([0, 1], now)

    def answer(self, number: int) -> None:
        for node in (0, 1):
            self.run.hear(node, {"sampled": number, "text": "[%d]" % number})

    def judge(self, found: dict[str, Any], now: float) -> None:
        """The judge has ended, and has written this."""
        with open(self.paths.judged, "w") as file:
            file.write(json.dumps(found))
        self.spared.discard(JUDGE)
        self.run.step([0, 1], now)

    def look(self, now: float, found: dict[str, Any]) -> None:
        first = len(self.asked) + 1
        self.tell(now, now)
        self.answer(first)
        self.tell(now, now)
        self.tell(now + LONGEST_GAP, now + LONGEST_GAP)
        self.answer(first + 1)
        self.tell(now + LONGEST_GAP, now + LONGEST_GAP)
        assert self.run.is_judging and self.spared == {JUDGE}
        self.judge(found, now + LONGEST_GAP + 1.0)

    @property
    def samples(self) -> list[str]:
        return sorted(os.listdir(self.paths.stacks_dir)) if os.path.isdir(self.paths.stacks_dir) else []


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Head]:
    return lambda action: Head(tmp_path, monkeypatch, action)


STUCK = {"alive": False, "sentence": "rank 1 has not entered all_reduce", "standing": "established", "summary": [1, {}]}
ALIVE = {"alive": True, "reason": "rank 0: computes", "summary": [1.0, {}]}


def test_a_run_that_hangs_is_told_and_goes_on(head: Callable[[str], Head]) -> None:
    told = head("report")
    told.look(LIMIT, STUCK)
    assert told.asked == [(1, False), (2, True)], "the second sample has the recorders' dumps"
    (order,) = told.orders
    assert (order["samples"], order["living"], order["limit"], order["asks_ras"]) == ([1, 2], [0, 1], LIMIT, True)
    stuck, notice = told.events
    assert (stuck["event"], stuck["standing"], stuck["sentence"]) == ("stuck", "established", STUCK["sentence"])
    assert (notice["event"], notice["id"]) == ("notice", "hang") and STUCK["sentence"] in notice["text"]
    assert told.decided == [] and len(told.samples) == 4


def test_a_run_that_hangs_is_ended_where_the_job_says_so(head: Callable[[str], Head]) -> None:
    stopped = head("stop")
    stopped.look(LIMIT, STUCK)
    assert len(stopped.decided) == 1 and STUCK["sentence"] in stopped.decided[0]


def test_of_a_run_that_works_only_what_was_seen_is_kept(head: Callable[[str], Head]) -> None:
    works = head("stop")
    works.look(LIMIT, ALIVE)
    assert works.samples == [] and works.events == [] and works.decided == []
    works.look(3 * LIMIT, {"asked_ras": True, **STUCK})
    assert works.orders[1]["former"] == [ALIVE["summary"]] and len(works.samples) == 4
    works.tell(0.0, 4 * LIMIT)
    works.tell(0.0, 4 * LIMIT + 20.0)
    assert [each["event"] for each in works.events[2:]] == ["resumed", "notice"]
    works.look(9 * LIMIT, ALIVE)
    assert works.orders[2]["asks_ras"] is False, "once in a run"


def test_what_was_seen_before_a_sign_of_life_does_not_count(head: Callable[[str], Head]) -> None:
    works = head("report")
    works.look(LIMIT, ALIVE)
    works.tell(0.0, LIMIT + 10.0)
    works.run._former = [(0.0, summary) for _, summary in works.run._former]  # as long ago as the test's clock says
    works.look(3 * LIMIT, ALIVE)
    assert works.orders[1]["former"] == []


@pytest.mark.parametrize("found", [{}, {"alive": "no"}, {"alive": False}, {"alive": False, "sentence": 3}])
def test_a_judge_that_failed_says_nothing(head: Callable[[str], Head], found: dict[str, Any]) -> None:
    unsure = head("stop")
    unsure.look(LIMIT, found)
    assert unsure.events == [] and unsure.decided == []
    unsure.look(3 * LIMIT, STUCK)
    assert len(unsure.decided) == 1, "and the next look counts"


def test_an_answer_that_is_late_or_no_answer_is_not_kept(head: Callable[[str], Head]) -> None:
    run = head("report")
    run.tell(LIMIT, LIMIT)
    for damaged in ({}, {"sampled": 7, "text": "x"}, {"sampled": "1", "text": "x"}, {"sampled": 1, "text": 3}):
        run.run.hear(1, damaged)
    assert run.samples == []
    run.answer(1)
    assert run.samples == ["node-0000-0001.jsonl", "node-0001-0001.jsonl"]
    run.tell(1.0, LIMIT + 1.0)
    run.tell(LIMIT, 3 * LIMIT)
    assert run.samples == [], "a look that signs of life have ended leaves nothing"


def test_the_silence_is_that_of_the_nodes_that_are_left(head: Callable[[str], Head]) -> None:
    """A run that goes on without a node: the last that was heard of it stays as it was."""
    run = head("report")
    run.tell(0.0, 1.0)
    for number in (1, 2):
        now = LIMIT + number * LONGEST_GAP
        run.run.hear(0, {"signs": NodeSigns(now, True, (0,))._asdict()})
        run.run.step([0], now)
        assert len(run.asked) == number
        run.answer(number)
        run.run.step([0], now)
    (order,) = run.orders
    assert abs(time.time() - order["since"] - now) < 60.0


def test_a_judge_that_waits_for_a_file_server_is_left_behind(
    head: Callable[[str], Head], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(watch_head.processes, "signal_process", lambda pid, number: ended.append(pid))
    run = head("stop")
    monkeypatch.setattr(run, "judge", lambda found, now: None)
    run.look(LIMIT, STUCK)
    now = LIMIT + LONGEST_GAP
    run.run.step([0, 1], now + watch_head.JUDGE_SECONDS - 1.0)
    assert run.run.is_judging and ended == []
    run.run.step([0, 1], now + watch_head.JUDGE_SECONDS)
    assert not run.run.is_judging and ended == [JUDGE] and run.decided == [] and run.samples == []
