"""The first trials of one seed on a Slurm cluster of their own. Another one: `make chaos`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm.fixtures import skip_without_cluster

from chaos.kinds import EXIT_CODE, KINDS, NODE, STORAGE
from chaos.plans import Strike, Trial, trial
from chaos.slurm_world import SlurmWorld, slurm_world
from chaos.trials import carry_out

pytestmark = [pytest.mark.chaos, pytest.mark.slurm, pytest.mark.timeout(400)]

SEED = 20261126
TRIALS = 35


@pytest.fixture(scope="module")
def world() -> Iterator[SlurmWorld]:
    """It needs a small disk that all nodes see, so its cluster is not the session's."""
    skip_without_cluster()
    with slurm_world() as world:
        yield world


KNOWN = {
    "a task that fails while others work": ("script", "stopping", (), EXIT_CODE),
    "an agent, and what its ranks have started": ("tree", "line", (Strike("agent", "KILL", 1),), NODE),
    "an agent whose ranks have not started": ("ranks", "meeting", (Strike("agent", "KILL", 0),), NODE),
    "the agent of a script": ("script", "line", (Strike("agent", "KILL", 0),), NODE),
    "an agent's keeper": ("ranks", "line", (Strike("keeper", "KILL", 1),), NODE),
    "the head's slurmstepd": ("ranks", "line", (Strike("stepd", "KILL", 0),), NODE),
    "another node's slurmstepd": ("tree", "line", (Strike("stepd", "KILL", 1),), NODE),
    "the head's network, and so srun's": ("ranks", "line", (Strike("network", "cut", 0),), NODE),
    "a script whose disk is full": ("script", "line", (Strike("disk", "filled", 0),), STORAGE),
    "an agent that is stopped": ("ranks", "line", (Strike("agent", "STOP", 1),), NODE),
}
"""What was told wrongly, or left something, once."""


@pytest.mark.parametrize("what", KNOWN)
def test_what_went_wrong_once(world: SlurmWorld, what: str, tmp_path: Path) -> None:
    job, moment, strikes, outcome = KNOWN[what]
    number = list(KNOWN).index(what)
    known = Trial("slurm", 0, number, job, moment, 0, 3, strikes, frozenset((outcome,)))
    verdict = carry_out(world, known, str(tmp_path))
    assert not verdict.wrong and verdict.hit == len(strikes), verdict


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(TRIALS))
def test_a_trial(world: SlurmWorld, number: int, tmp_path: Path) -> None:
    verdict = carry_out(world, trial("slurm", SEED, number), str(tmp_path))
    assert not verdict.wrong, "%s\nagain: make chaos TRIAL=%s" % (verdict, verdict.trial)


def test_every_kind_of_fault_has_its_turn() -> None:
    assert len(KINDS["slurm"]) <= TRIALS
