"""What is told while a run is prepared shows no password, whoever tells it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.service.request import Progress

TEXT = "fetching git+https://anna:Canary@host/x.git with --token Canary"
SHOWN = "fetching git+https://anna:***@host/x.git with --token ***"


@pytest.mark.parametrize("tell", [NoticePrinter, ProgressLine])
def test_a_notice(tell: Callable[[], Progress], capsys: pytest.CaptureFixture[str]) -> None:
    tell().notice(TEXT)
    assert capsys.readouterr().err == "notice: %s\n" % SHOWN


@pytest.mark.parametrize("what", ["step", "show_activity", "transfer"])
def test_what_is_said_for_the_moment(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    ticker = ProgressLine()
    monkeypatch.setattr("time.monotonic", lambda: 2e9)
    getattr(ticker, what)(TEXT, *([1, 2] if what != "show_activity" else []))
    said = capsys.readouterr().err
    assert "git+https://anna:***@" in said and "Canary" not in said
