"""What is told while a run is prepared shows no password, whoever tells it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.compute.base import CheckResult
from worldsize.errors import UsageError
from worldsize.service.client import _LoggedProgress
from worldsize.service.request import Progress
from worldsize.store.content_store import ContentStore
from worldsize.wings.environments.workspace.builder import Build, ScratchBuild, ensure_built
from worldsize.wings.provisioning.image import pull_image
from worldsize.wings.provisioning.job_image import ContainerRuntime, _find_obstacle

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


def test_what_is_logged_for_a_program(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "worldsize"):
        _LoggedProgress().notice(TEXT)
    assert caplog.messages == [SHOWN]


def test_a_builds_steps_and_news(tmp_path: Path) -> None:
    """Its log, who watches, and the note for those who wait."""
    told: list[str] = []
    notes: list[str] = []

    def make(work: Build) -> dict[str, object]:
        work.report_step(TEXT)
        work.report_progress(TEXT)
        notes.extend(path.read_text() for path in tmp_path.rglob("*.lock"))
        assert SHOWN in Path(work.log_path).read_text() and "Canary" not in Path(work.log_path).read_text()
        return {}

    (tmp_path / "envs").mkdir(0o700)
    ensure_built(str(tmp_path / "envs" / "env"), make, told.append)
    assert told == [SHOWN, SHOWN] and notes and not any("Canary" in note for note in notes)
    ScratchBuild(str(tmp_path), told.append).report_step(TEXT)
    assert told[2:] == [SHOWN] and "Canary" not in (tmp_path / "log").read_text()


IMAGE = "docker://anna:Canary@host/image:1"


def test_the_name_of_an_image(tmp_path: Path) -> None:
    program = tmp_path / "apptainer"
    program.write_text('#!/bin/sh\necho "cannot reach $3" >&2; exit 1\n')
    program.chmod(0o755)

    class Told(Progress):
        said = ""

        def show_notice(self, text: str) -> None:
            self.said += text

    told = Told()
    for path in (str(program), str(tmp_path / "none")):
        with pytest.raises(UsageError) as refused:
            pull_image(IMAGE, "apptainer", path, ContentStore(str(tmp_path / "data"), told), os.environ)
        assert "Canary" not in str(refused.value) + str(refused.value.where)
    assert "fetching the container image docker://anna:***@host/image:1" in told.said and "Canary" not in told.said
    for runtime in (None, ContainerRuntime("none", "")):
        found = _find_obstacle(None, None, IMAGE, runtime, "image")  # type: ignore[arg-type]
        assert isinstance(found, CheckResult) and "anna:***@host" in found.what and "Canary" not in found.what
