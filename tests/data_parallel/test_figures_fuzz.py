"""Training scripts made at random: each figure that they print on two ranks is that of one process, or its line is
named, and no line is named where all are equal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

from figure_checks import faults_of
from loop_programs import make_program

pytestmark = pytest.mark.timeout(300)

PROGRAMS = 30
FIRST = int(os.environ.get("WORLDSIZE_FUZZ_FIRST", "0"))
COUNT = int(os.environ.get("WORLDSIZE_FUZZ_PROGRAMS", PROGRAMS))
GROUP = 10


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, GROUP))
def test_programs_made_at_random(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + GROUP):
        program = make_program(seed)
        assert not faults_of(program, str(tmp_path)), (seed, program.source)


@pytest.mark.exhaustive
def test_programs_made_at_random_on_four_ranks(tmp_path: Path) -> None:
    for seed in range(1000, 1000 + GROUP):
        program = make_program(seed)
        assert not faults_of(program, str(tmp_path), ranks=4), (seed, program.source)
