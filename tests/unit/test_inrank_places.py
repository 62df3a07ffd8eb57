"""A process that a launcher in a rank's script has started: its own place is the only one that its variables tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / "src" / "worldsize" / "inrank"
TORCH = ("RANK", "LOCAL_RANK", "WORLD_SIZE")
MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE")
OWN = ("WORLDSIZE_RANK", "WORLDSIZE_LOCAL_RANK", "WORLDSIZE_WORLD_SIZE")
MORE = {
    "LOCAL_WORLD_SIZE": "1", "NODE_RANK": "0", "GROUP_RANK": "0", "ROLE_RANK": "0", "TORCHELASTIC_RUN_ID": "run",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1", "OMPI_COMM_WORLD_NODE_RANK": "0",
}  # fmt: skip
ALWAYS = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871", "SLURM_PROCID": "0", "WORLDSIZE_RUN_ID": "run"}

ALONE = ("0", "0", "1")
SECOND_NODE = ("1", "0", "2")


def seen(own: tuple[str, ...] | None, torch: tuple[str, ...] | None, mpi: tuple[str, ...] | None) -> dict[str, str]:
    """The environment as a Python finds it that is told these places: rank, local rank, world size."""
    environ = {**MORE, **ALWAYS, "PATH": os.environ["PATH"], "PYTHONPATH": str(HOOK)}
    for names, values in ((OWN, own), (TORCH, torch), (MPI, mpi)):
        environ.update(zip(names, values or (), strict=False))
    argv = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, str] = json.loads(done.stdout)
    assert {name: found.get(name) for name in ALWAYS} == ALWAYS
    return found


def told(found: dict[str, str]) -> set[str]:
    """Whose variables tell a place."""
    whose = {"mpi" for name in found if name.startswith("OMPI_COMM_WORLD_")}
    return whose | {"torch" for name in (*TORCH, *MORE) if name in found and not name.startswith("OMPI_")}


@pytest.mark.parametrize("own", [ALONE, SECOND_NODE])
def test_a_rank_keeps_all_its_variables(own: tuple[str, ...]) -> None:
    found = seen(own, own, own)
    assert {*TORCH, *MPI, *MORE} <= set(found)


@pytest.mark.parametrize(
    ("own", "place"),
    [
        (ALONE, ("0", "0", "2")),
        (ALONE, ("1", "1", "2")),
        (SECOND_NODE, ("2", "0", "4")),
        (SECOND_NODE, ("3", "1", "4")),
    ],
)
def test_in_ranks_of_a_torchrun_open_mpi_tells_nothing(own: tuple[str, ...], place: tuple[str, ...]) -> None:
    found = seen(own, place, own)
    assert told(found) == {"torch"} and tuple(found[name] for name in TORCH) == place
    assert found["TORCHELASTIC_RUN_ID"] == "run"


@pytest.mark.parametrize("place", [("0", "0", "2"), ("1", "1", "2")])
def test_in_ranks_of_an_mpirun_torch_tells_nothing(place: tuple[str, ...]) -> None:
    found = seen(ALONE, ALONE, place)
    assert told(found) == {"mpi"} and tuple(found[name] for name in MPI) == place


@pytest.mark.parametrize(
    ("own", "torch", "mpi"),
    [
        (ALONE, ("0", "0", "2"), None),
        (ALONE, None, ("0", "0", "2")),
        (ALONE, ALONE, None),
        (None, ALONE, ("0", "0", "2")),
        (ALONE, ("0", "0", "4"), ("0", "0", "2")),
    ],
    ids=["no mpi", "no torch", "torch alone", "no rank of a run", "both from elsewhere"],
)
def test_what_is_nobody_elses_stays(
    own: tuple[str, ...] | None, torch: tuple[str, ...] | None, mpi: tuple[str, ...] | None
) -> None:
    found = seen(own, torch, mpi)
    assert tuple(found.get(name) for name in TORCH) == (torch or (None,) * 3)
    assert tuple(found.get(name) for name in MPI) == (mpi or (None,) * 3)
    assert set(MORE) <= set(found)
