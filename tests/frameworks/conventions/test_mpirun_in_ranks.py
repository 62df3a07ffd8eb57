"""A rank's own script starts mpirun, as it does without worldsize; a rank that uses MPI by itself is alone."""

from __future__ import annotations

import shutil

import pytest
from driver import Cli
from found_places import numbers, places, run
from training import needs

ENVIRONMENT = ".venv-mpi"
pytestmark = [pytest.mark.timeout(300), needs(ENVIRONMENT)]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""For Open MPI itself; nothing else than root's tests need it."""

SUM = """
from mpi4py import MPI
everyone = MPI.COMM_WORLD
say(rank=everyone.Get_rank(), world=everyone.Get_size(), sum=everyone.allreduce(1))
"""
STARTED = "mpirun --oversubscribe -n 2 "


def test_mpirun_of_the_environment(cli: Cli) -> None:
    found = places(cli, SUM, "1x1", ENVIRONMENT, STARTED + "python found.py", environment_variables=AS_ROOT)
    assert numbers(found) == [(0, 2), (1, 2)] and [each["sum"] for each in found] == [2, 2]


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: sh scripts/system-packages.sh")
@pytest.mark.parametrize("world", ["1x1", "2x1"])
def test_mpirun_of_the_system(cli: Cli, world: str) -> None:
    """Open MPI 4, on each node."""
    command = "%s %s sh -c 'echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE'"
    words = STARTED.partition(" ")[2]
    result = run(cli, command % (shutil.which("mpirun"), words), world, ENVIRONMENT, environment_variables=AS_ROOT)
    assert result.code == 0, result
    for rank in range(int(world[0])):
        assert sorted(cli.ok("logs", "--rank", str(rank), "--raw").lines) == ["0 of 2", "1 of 2"]


@pytest.mark.exhaustive
def test_mpirun_on_hpc_pack_and_on_slurm_without_its_job_id(every_place: Cli) -> None:
    """On Slurm, SLURM_JOBID is Slurm's own, and mpirun goes by it unless it is unset."""
    command = "env -u SLURM_JOBID %s python found.py" % STARTED
    found = places(every_place, SUM, "1x1", ENVIRONMENT, command, environment_variables=AS_ROOT)
    assert numbers(found) == [(0, 2), (1, 2)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", ["1x1", "1x2"])
def test_a_plain_rank_that_uses_mpi_is_alone(cli: Cli, world: str) -> None:
    """As without mpirun: `type: mpi` starts ranks that find each other by MPI."""
    found = places(cli, SUM, world, ENVIRONMENT)
    assert numbers(found) == [(0, 1)] * int(world[-1])
