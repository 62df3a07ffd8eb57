"""The first trials of one seed on virtual nodes. Another one: `make chaos`, which also repeats a single trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.kinds import KINDS, NODE
from chaos.local_world import LocalWorld
from chaos.plans import Strike, Trial, trial
from chaos.trials import carry_out

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

SEED = 20261126
TRIALS = 30
ALWAYS = [str(number) for number in (0, 5, 18, 22)]
"""A rank, an agent, a conductor, all of them."""


def test_a_conductor_that_is_killed_before_its_agents(tmp_path: Path) -> None:
    known = Trial("local", 0, 0, "ranks", "setup", 0, 1, (Strike("conductor", "KILL", 0),), frozenset((NODE,)))
    verdict = carry_out(LocalWorld(str(tmp_path)), known, str(tmp_path / "kept"))
    assert not verdict.wrong and verdict.hit == 1, verdict


@pytest.mark.exhaustive(unless=ALWAYS)
@pytest.mark.parametrize("number", range(TRIALS))
def test_a_trial(number: int, tmp_path: Path) -> None:
    verdict = carry_out(LocalWorld(str(tmp_path)), trial("local", SEED, number), str(tmp_path / "kept"))
    assert not verdict.wrong, "%s\nagain: make chaos TRIAL=%s" % (verdict, verdict.trial)


def test_every_kind_of_fault_has_its_turn() -> None:
    assert len(KINDS["local"]) <= TRIALS
