"""The name of a run whose job has none: that of the script in its command, else of the program."""

from __future__ import annotations

import pytest

from worldsize.jobspec.job import Job
from worldsize.service.submission.make_plan import _name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("A=1 python train.py --lr 0.1", "train"),
        ("/usr/bin/env python3 './run.sh'", "run"),
        ("[ $RANK = 0 ] || kill -SEGV $$", "kill"),
        ("true; touch x", "true"),
        ("(cd src && ./train)", "cd"),
        ('"$PROGRAM"', "run"),
        ("", "run"),
    ],
)
def test_the_name_of_a_command(command: str, name: str) -> None:
    assert _name(Job(command=command)) == name


def test_the_name_of_words() -> None:
    assert _name(Job(argv=("python", "tools/fit.py"))) == "fit"
