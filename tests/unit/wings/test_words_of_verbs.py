"""Mistakes in the words after verbs that are wings: exit 2, and what to say instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_process import InProcess


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("diff", "two runs"),
        ("prune", "no option selects runs"),
        ("prune --older-than yesterday", "30d"),
    ],
)
def test_words(tmp_path: Path, words: str, says: str) -> None:
    cli = InProcess(str(tmp_path))
    done = cli(*words.split())
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
