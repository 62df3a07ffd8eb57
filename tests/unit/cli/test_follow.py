"""A run that its scheduler starts again, on the terminal of who follows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from worldsize.cli.runs.follow import AttemptReader
from worldsize.plan.run_paths import RunPaths


class Shown:
    """What was asked of the readers, by attempt."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.run: Any = SimpleNamespace(id="r", paths=RunPaths("/runs/r"))
        self.attempts = AttemptReader(cast(Any, self.run), self.reader)

    def reader(self, paths: RunPaths) -> Any:
        def note(what: str) -> bool:
            self.said.append("%s %d" % (what, paths.attempt))
            return False

        return SimpleNamespace(poll=lambda: note("poll"), finish=lambda: note("finish"))


def test_one_attempt_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown()
    shown.attempts.poll()
    shown.run.paths = RunPaths("/runs/r", 1)
    shown.attempts.poll()
    shown.attempts.finish()
    assert shown.said == ["poll 0", "finish 0", "poll 1", "finish 1"]
    assert "run r was started again: attempt 1" in capsys.readouterr().err


def test_an_attempt_that_ended_before_anybody_looked_is_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown()
    shown.attempts.poll()
    shown.run.paths = RunPaths("/runs/r", 2)
    shown.attempts.finish()
    assert shown.said == ["poll 0", "finish 0", "finish 2"]
    assert "run r was started again: attempt 2" in capsys.readouterr().err
