"""The words of `worldsize bench allreduce`: what is refused, and what ranks are told to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from in_process import InProcess


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    return InProcess(str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--factor", "0"), "0 does not make a range"),
        (("--factor", "1"), "1 does not make a range"),
        (("--iterations", "0"), "--iterations: 0 all-reduces measure nothing"),
        (("--warmup", "0"), "--warmup: 0 all-reduces"),
        (("--warmup", "-3"), "--warmup: -3 all-reduces"),
        (("--sizes", "8X"), "'8X' is not a size"),
        (("--backend", "smoke-signals"), "invalid choice"),
    ],
)
def test_a_number_that_measures_nothing_is_refused(cli: InProcess, words: tuple[str, ...], said: str) -> None:
    result = cli("bench", "allreduce", "-w", "1x2", *words)
    assert result.code == 2, result
    assert said in result.err
    assert os.listdir(cli.project) == []


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ((), "allreduce.by_torch --sizes 8,16 --dtype float32 --warmup 5"),
        (
            ("--backend", "gloo", "--warmup", "3"),
            "allreduce.by_torch --sizes 8,16 --dtype float32 --backend gloo --warmup 3",
        ),
        (("--backend", "mpi", "--dtype", "float64"), "allreduce.by_mpi --sizes 8,16 --dtype float64 --warmup 5"),
        (("--iterations", "7"), "allreduce.by_torch --sizes 8,16 --dtype float32 --iterations 7 --warmup 5"),
    ],
)
def test_ranks_are_told_what_to_do(cli: InProcess, words: tuple[str, ...], command: str) -> None:
    result = cli("bench", "allreduce", "-w", "1x2", "--sizes", "8B:16B", "--dry-run", *words)
    assert result.code == 0, result
    assert "python -m " + command in " ".join(result.out.split())
