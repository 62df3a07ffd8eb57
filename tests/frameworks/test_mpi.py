"""MPI for real: mpirun under our agents without ssh, srun with PMIx, ranks that only read the variables; who failed."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from driver import Cli, wait_for
from training import PATIENCE, ROOT, accuracy, example, needs, trained, trap

pytestmark = pytest.mark.timeout(300)
with_mpi4py = needs(".venv-mpi")
with_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: sh scripts/system-packages.sh")
PYTHON = os.path.join(ROOT, ".venv-mpi", "bin", "python")


def run(cli: Cli, command: str, world: str = "2x2", **keys: Any) -> int:
    """The exit code of an MPI job."""
    nodes, _, each = world.partition("x")
    distribution = {"type": "mpi", "process_count_per_instance": int(each), **keys.pop("distribution", {})}
    job = {
        "command": command,
        "code": ".",
        "distribution": distribution,
        "resources": {"instance_count": int(nodes)},
        **keys,
    }
    cli.write("job.yml", json.dumps(job))
    return cli("run", "job.yml", timeout=PATIENCE).code


def launcher(cli: Cli) -> str:
    """What has started the ranks of the latest run."""
    names = os.listdir(cli.path(cli.latest(), "attempt-0", "logs"))
    return next((name.partition("-")[0] for name in names if name.startswith(("mpirun-", "srun-"))), "direct")


def logs(cli: Cli, ranks: int) -> list[str]:
    return [cli.read(cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(ranks)]


def reduced(logs: list[str]) -> str:
    """Which MPI did it, once all ranks have said that the sum is right."""
    found = [re.search(r"^rank (\d) of (\d) on \S+: allreduce=ok$", log, re.MULTILINE) for log in logs]
    assert [match and (int(match[1]), int(match[2])) for match in found] == [
        (rank, len(logs)) for rank in range(len(logs))
    ]
    library = re.search(r" ms for 0\.1 MB, by (.*)", logs[0])
    assert library is not None
    return library[1]


@with_mpi4py
def test_mpi_adds_up_over_the_nodes(place: Cli) -> None:
    """With the Open MPI 5 of the job's own environment, and without ssh."""
    called = trap(place, "ssh", "rsh")
    logs = trained(place, example("mpi-allreduce"), "--set", "inputs.megabytes=0.1")
    assert reduced(logs).startswith("Open MPI v5.") and launcher(place) == "mpirun"
    assert not os.path.exists(called)


@with_mpi4py
def test_srun_starts_the_ranks_where_slurm_has_pmix(slurm_place: Cli) -> None:
    words = ("--set", "inputs.megabytes=0.1", "--set", "distribution.launcher=srun")
    assert reduced(trained(slurm_place, example("mpi-allreduce"), *words))
    assert launcher(slurm_place) == "srun"


@pytest.mark.exhaustive
@with_mpirun
def test_torch_takes_its_rank_from_mpirun(place: Cli, world: str) -> None:
    """With the Open MPI 4 of the system."""
    logs = trained(place, example("mpi-torch"), "-w", world, "--set", "inputs.epochs=4")
    assert accuracy(logs) > 0.9 and launcher(place) == "mpirun"
    assert not any("accuracy" in log for log in logs[1:])


WORLD = """
import os, sys
from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.Get_rank()
assert (rank, world.Get_size()) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
near = world.Split_type(MPI.COMM_TYPE_SHARED)
assert near.allreduce(1) == near.Get_size()
if rank == 2:
    exec(sys.argv[1])
world.Barrier()
print(world.allreduce(rank), MPI.Get_library_version().split(",")[0], os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])
"""


@pytest.fixture
def system_mpi() -> dict[str, str]:
    """mpi4py on the system's Open MPI, in place of the one beside it."""
    library = next(Path("/usr/lib").glob("*/libmpi.so.40"))
    return {"LD_LIBRARY_PATH": str(library.parent), "PATH": os.environ["PATH"]}


@with_mpirun
@with_mpi4py
def test_virtual_nodes_share_memory_with_the_systems_mpi(cli: Cli, system_mpi: dict[str, str]) -> None:
    cli.write("world.py", WORLD)
    assert run(cli, PYTHON + " world.py pass", "3x2", environment_variables=system_mpi) == 0
    for rank, log in enumerate(logs(cli, 6)):  # Open MPI 5 may warn about the interfaces of this host before
        assert re.search(r"^15 Open MPI v[45]\.\S+ %d\n\Z" % (rank % 2), log, re.MULTILINE), log


@with_mpirun
@with_mpi4py
@pytest.mark.exhaustive(unless=["raises"])
@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("raise ValueError('bad batch')", 1, "exited with code 1: ValueError: bad batch"),
        ("os.kill(os.getpid(), 9)", 137, "was killed by signal 9 (SIGKILL)"),
        ("world.Abort(7)", 7, "exited with code 7"),
        ("os._exit(5)", 5, "exited with code 5"),
    ],
    ids=["raises", "is killed", "aborts", "exits"],
)
def test_the_rank_that_fails_is_named(
    cli: Cli, system_mpi: dict[str, str], fault: str, code: int, message: str
) -> None:
    cli.write("world.py", WORLD)
    assert run(cli, "%s world.py %r" % (PYTHON, fault), environment_variables=system_mpi) == code
    failure = cli.status()["failure"]
    assert (failure["rank"], failure["node_rank"], failure["code"]) == (2, 1, code)
    assert message in failure["message"]


@with_mpi4py
def test_the_rank_that_fails_is_named_on_a_cluster(slurm_place: Cli) -> None:
    slurm_place.write("world.py", WORLD)
    assert run(slurm_place, "python world.py 'raise ValueError(3)'", environment=os.path.join(ROOT, ".venv-mpi")) == 1
    failure = slurm_place.status()["failure"]
    assert (failure["rank"], failure["node_rank"], failure["exception"]["message"]) == (2, 1, "3")


@with_mpirun
def test_cancelling_leaves_nothing_of_it(cli: Cli) -> None:
    job = {"command": "touch outputs/up-$RANK; exec sleep 600", "distribution": {"type": "mpi"}}
    cli.write("job.yml", json.dumps({**job, "code": ".", "resources": {"instance_count": 3}}))
    latest = cli.submit("job.yml")
    wait_for(lambda: all(os.path.exists(cli.path(latest, "outputs", "up-%d" % rank)) for rank in range(3)), 60)
    cli.ok("cancel", latest)
    cli("wait", latest)
    assert cli.status(latest)["state"] == "CANCELLED"


@pytest.fixture
def without_mpirun(tmp_path: Path) -> dict[str, str]:
    """As on nodes without any MPI."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    (programs / "python").symlink_to(sys.executable)
    return {"PATH": str(programs)}


def test_ranks_without_an_mpirun_find_its_variables(cli: Cli, without_mpirun: dict[str, str]) -> None:
    names = ["RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"]
    command = "echo %s" % " ".join("$OMPI_COMM_WORLD_" + name for name in names)
    assert run(cli, command, environment_variables=without_mpirun) == 0
    assert logs(cli, 4) == ["0 4 0 2\n", "1 4 1 2\n", "2 4 0 2\n", "3 4 1 2\n"] and launcher(cli) == "direct"


def test_an_mpirun_that_is_asked_for_and_not_there_is_said(cli: Cli, without_mpirun: dict[str, str]) -> None:
    code = run(cli, "true", distribution={"launcher": "mpirun"}, environment_variables=without_mpirun)
    assert (code, cli.status()["failure"]["message"]) == (127, "mpirun: command not found")


def test_srun_is_slurms_alone(cli: Cli) -> None:
    cli.write("job.yml", json.dumps({"command": "true", "distribution": {"type": "mpi", "launcher": "srun"}}))
    result = cli("run", "job.yml")
    assert result.code == 2 and "local has no srun to start MPI ranks" in result.err
