"""A job is created once, whichever answers of the scheduler are lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from worldsize.compute import exactly_once
from worldsize.compute.exactly_once import PATIENCE, submit_once
from worldsize.errors import SubmitAgain, SubmitRejected

LOST, REFUSED = SubmitAgain("no answer"), SubmitRejected("no such queue")


class Scheduler:
    """`creates` and `finds` are its answers, one after the other; the last ones are repeated."""

    def __init__(self, creates: list[object], finds: list[object]) -> None:
        self.calls: list[str] = []
        self.answers = {"create": creates, "find": finds}

    def create(self) -> Any:
        return self.answer("create")

    def find(self) -> Any:
        return self.answer("find")

    def answer(self, call: str) -> object:
        self.calls.append(call)
        answers = self.answers[call]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock that only pauses move; its pauses."""
    pauses: list[float] = []
    monkeypatch.setattr(exactly_once.time, "sleep", pauses.append)
    monkeypatch.setattr(exactly_once.time, "monotonic", lambda: sum(pauses))
    yield pauses


@pytest.mark.parametrize(
    ("creates", "finds", "calls"),
    [
        (["17"], [[]], "create"),
        ([LOST, "18"], [["17"]], "create find"),
        ([LOST, "18"], [[], ["17"]], "create find find"),
        ([LOST, "17"], [[], []], "create find find create"),
        ([LOST, "17"], [LOST, LOST, [], LOST, []], "create find find find find find create"),
        ([LOST, LOST, "18"], [[], [], LOST, ["17"]], "create find find create find find"),
    ],
)
def test_a_lost_answer_is_looked_for_twice_before_another_job_is_created(
    creates: list[object], finds: list[object], calls: str
) -> None:
    scheduler = Scheduler(creates, finds)
    assert submit_once(scheduler.create, scheduler.find) == "17"
    assert scheduler.calls == calls.split()


def test_what_is_refused_is_not_tried_again() -> None:
    scheduler = Scheduler([REFUSED], [[]])
    with pytest.raises(SubmitRejected):
        submit_once(scheduler.create, scheduler.find)
    assert scheduler.calls == ["create"]


@pytest.mark.parametrize("finds", [[LOST], [[]]], ids=["no answer at all", "no answer to submissions"])
def test_patience_ends(finds: list[object], clock: list[float]) -> None:
    scheduler = Scheduler([LOST], finds)
    with pytest.raises(SubmitAgain):
        submit_once(scheduler.create, scheduler.find)
    assert PATIENCE < sum(clock) < PATIENCE + 40 and max(clock) <= 10
