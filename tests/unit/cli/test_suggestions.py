"""What command lines that are not understood were probably meant to be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from worldsize.cli.suggestions import unknown_words_error, wrong_job_file_error
from worldsize.errors import UsageError

BEHIND = " (behind the command, -w 1x2 would go to it)"


def hint_of(error: UsageError | None) -> str:
    assert error is not None and error.hint is not None
    return error.hint


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["./train.py"], "run -- python ./train.py"),
        (["-w", "1x2", "./train.py"], "run -w 1x2 -- python ./train.py"),
        (["./train.py", "-w", "1x2"], "run -w 1x2 -- python ./train.py" + BEHIND),
        (["../train.py"], "run --code .. -- python train.py"),
        (["../src/train.py"], "run --code ../src -- python train.py"),
    ],
)
def test_a_script_where_a_job_file_should_be(words: list[str], hint: str) -> None:
    script = next(word for word in words if word.endswith(".py"))
    assert hint_of(wrong_job_file_error(script, ["run", *words])) == "worldsize " + hint


@pytest.mark.parametrize(
    ("words", "extra", "hint"),
    [
        (["python", "train.py", "-w", "1x2"], ["train.py"], "run -w 1x2 -- python train.py" + BEHIND),
        (["-w", "1x2", "python", "train.py", "--lr", "1"], ["train.py", "--lr", "1"],
         "run -w 1x2 -- python train.py --lr 1"),
        (["train.py", "-w", "1x2", "--lr", "1"], ["--lr", "1"], "run -w 1x2 -- python train.py --lr 1" + BEHIND),
    ],
)  # fmt: skip
def test_options_of_worldsize_behind_a_command_stand_before_it(
    words: Sequence[str], extra: Sequence[str], hint: str
) -> None:
    import argparse

    error = unknown_words_error(argparse.ArgumentParser(), "run", ["run", *words], extra)
    assert hint_of(error) == "worldsize " + hint
