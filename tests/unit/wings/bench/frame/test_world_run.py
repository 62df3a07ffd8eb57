"""The run of one world, as it is waited for."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any, cast

import pytest
from in_process import HANDLED

from worldsize.service.request import SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status
from worldsize.wings.bench.world_run import WorldRun
from worldsize.wings.bench.worlds import World

ENDED = Status(RunState.SUCCEEDED, exit_code=0)


class _Run:
    """A run that has succeeded by the time at which somebody cancels it."""

    id = "a-run"

    def __init__(self, *, ctrl_c: bool) -> None:
        self._ctrl_c = ctrl_c
        self.cancelled = 0

    def follow(self, *_: Any) -> list[Status]:
        if self._ctrl_c:
            os.kill(os.getpid(), signal.SIGINT)
        return [ENDED]

    def overall(self, statuses: list[Status]) -> Status:
        return statuses[0]

    def cancel(self, now: bool = False) -> None:
        self.cancelled += 1


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("ctrl_c", "code"), [(False, None), (True, 130)])
def test_no_world_follows_a_ctrl_c_though_the_run_has_succeeded(ctrl_c: bool, code: int | None) -> None:
    run = _Run(ctrl_c=ctrl_c)
    end = WorldRun(World(1, 1), cast(SubmissionRequest, None), None).follow(cast(Run, run), lambda _: None)
    assert (end.status, end.failure, end.interrupted) == (ENDED, "", code)
    assert run.cancelled == int(ctrl_c)
