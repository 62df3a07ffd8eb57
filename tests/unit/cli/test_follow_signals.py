"""Signals from the preparation of a run to its end: none is lost while the run is submitted."""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from worldsize.cli.run.follow_signals import DetachRequest, FollowSignals

_NUMBERS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM, signal.SIGALRM)


class CancelledRun:
    """A run that notes how it was cancelled."""

    id = "20261130-120000-abc"

    def __init__(self) -> None:
        self.cancelled: list[bool] = []

    def cancel(self, now: bool) -> None:
        self.cancelled.append(now)


@pytest.fixture
def signals() -> Iterator[FollowSignals]:
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _NUMBERS}
    yield FollowSignals()
    for number, handler in before.items():
        signal.signal(number, handler)


def attach(signals: FollowSignals) -> CancelledRun:
    run = CancelledRun()
    signals.attach(cast("Any", run))
    return run


def test_before_a_run_is_submitted_a_signal_ends_the_process(signals: FollowSignals) -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(SystemExit) as end:
        os.kill(os.getpid(), signal.SIGTERM)
    assert end.value.code == 128 + signal.SIGTERM


def test_while_it_is_submitted_they_wait_for_it(signals: FollowSignals, capsys: pytest.CaptureFixture[str]) -> None:
    signals.hold()
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.has_cancelled
    run = attach(signals)
    assert run.cancelled == [False]
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    assert run.cancelled == [False, True], "the second one at once, and no further one"


def test_a_cancel_waits_for_the_end_of_an_import(
    signals: FollowSignals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of one, a cancel would find modules of which a part is missing."""
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\ncancelled = ['imported']\n"
    (tmp_path / "imported_by_a_cancel.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found: list[str] = []

    class Importing(CancelledRun):
        def cancel(self, now: bool) -> None:
            from imported_by_a_cancel import cancelled

            found.extend(cancelled)

    signals.attach(cast("Any", Importing()))
    importlib.import_module("imported_by_a_cancel")
    assert signals.has_cancelled
    while not found:
        time.sleep(0.005)
    assert found == ["imported"]


def test_two_that_waited_cancel_at_once(signals: FollowSignals) -> None:
    signals.hold()
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
    assert attach(signals).cancelled == [False, True]


def test_who_leaves_while_it_is_submitted_leaves_it_running(signals: FollowSignals) -> None:
    signals.hold()
    os.kill(os.getpid(), signal.SIGHUP)
    run = attach(signals)
    with pytest.raises(DetachRequest) as left:
        signals.follow()
    assert left.value.code == 0 and not run.cancelled and not signals.has_cancelled


def test_after_the_end_they_end_the_process_again(signals: FollowSignals) -> None:
    run = attach(signals)
    signals.release()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert not run.cancelled
