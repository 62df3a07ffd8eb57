"""Code that is a home, or where temporary files are: how large it is, is asked before anything of it is copied."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.cli import questions
from worldsize.cli.progress_line import NoticePrinter
from worldsize.errors import UsageError
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.submission.run_directory import holds_everything
from worldsize.service.submission.submit import start


class Asked(Progress):
    def __init__(self) -> None:
        self.about: list[tuple[str, int, int]] = []

    def confirm_snapshot(self, directory: str, files: int, size: int) -> None:
        self.about.append((directory, files, size))
        raise UsageError("nothing was started")


def request_of(code: Path, home: Path, state: Path) -> SubmissionRequest:
    environ = {"WORLDSIZE_HOME": str(state), "PATH": os.environ["PATH"], "HOME": str(home)}
    job = Job(command="true", argv=("true",), code=str(code), source="command line")
    return SubmissionRequest(job, load_config(str(code), environ), None, environ, str(code))


def test_of_a_home_the_size_is_asked_and_nothing_is_left_of_a_run(tmp_path: Path) -> None:
    home, state, asked = tmp_path / "home", tmp_path / "state", Asked()
    home.mkdir()
    (home / "a").write_text("1234")
    (home / "b").write_text("5")
    with pytest.raises(UsageError, match="nothing was started"):
        start(request_of(home, home, state), asked)
    assert asked.about == [(str(home), 2, 5)]
    assert not [name for name in os.listdir(state / "runs") if name.startswith("20")]


@pytest.mark.parametrize(
    ("code", "asks"), [("/", True), ("/tmp", True), ("/home/me", True), ("/home/me/project", False), ("/tmp/x", False)]
)
def test_places_where_everything_lies(code: str, asks: bool) -> None:
    assert holds_everything(code, {"HOME": "/home/me"}) is asks


def test_without_a_terminal_it_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "can_ask", lambda: False)
    NoticePrinter().confirm_snapshot("/tmp", 1200, 3 << 20)
    said = capsys.readouterr().err
    assert said.startswith("notice: the code is /tmp: 1,200 files, 3") and "--code DIR" in said
