"""What a rank of another node did not find is looked for here: files, modules, and what never answers."""

from __future__ import annotations

import os
import sys

import pytest

from worldsize.agent.outcome import node_comparison
from worldsize.agent.outcome.node_comparison import Question, is_found, question_of
from worldsize.state.records import Failure, Reason


def question(message: str) -> Question | None:
    return question_of(Failure(Reason.EXIT_CODE, "rank 2 on node 1 (h) exited with code 1: " + message, 1, 2, 1, 9.0))


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/x.bin'", ("file", "data/x.bin")),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", ("readable file", "/data/x")),
        ("ModuleNotFoundError: No module named 'a.b'", ("module", "a")),
        ("FileNotFoundError: nothing there", None),
        ("ValueError: No such file or directory: 'x'", None),
    ],
)
def test_the_message_says_what_to_look_for(message: str, asked: tuple[str, str] | None) -> None:
    assert question(message) == asked


def test_files_and_modules(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there; rm -rf $HOME").write_text("")
    (tmp_path / "kept.py").write_text("raise SystemExit('it must not be imported')")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    python = (sys.executable, "train.py")
    for kind, name, found in (
        ("file", "there; rm -rf $HOME", True),
        ("file", "not there", False),
        ("file", "-e", False),
        ("readable file", str(tmp_path), True),
        ("module", "kept", True),
        ("module", "no_such_module", False),
    ):
        assert is_found(Question(kind, name), python, environ) is found, name
    assert is_found(Question("module", "kept"), (str(tmp_path / "python-none"), "train.py"), environ) is None


def test_what_takes_too_long_has_no_answer(tmp_path, monkeypatch) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o700)
    monkeypatch.setattr(node_comparison, "PATIENCE", 0.1)
    assert is_found(Question("module", "x"), (str(slow),), dict(os.environ)) is None
