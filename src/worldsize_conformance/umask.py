"""Tests of the umask: ranks have that of the submitting shell; worldsize's own files are readable only for the user, or
for the group if the run is shared."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from worldsize_conformance.driver import wait_for
from worldsize_conformance.place import Place

COMMAND = "touch outputs/file-$RANK && mkdir outputs/dir-$RANK && umask >outputs/umask-$RANK"
BATCH = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=5
touch outputs/by-script
srun bash -c 'touch outputs/by-task-$SLURM_PROCID'
srun --output=outputs/printed-%t bash -c 'echo printed'
"""


@contextmanager
def umask(mask: int) -> Iterator[None]:
    former = os.umask(mask)
    try:
        yield
    finally:
        os.umask(former)


def mode(*path: str) -> str:
    return "%03o" % stat.S_IMODE(os.lstat(os.path.join(*path)).st_mode)


def file_modes(place: Place, run: str) -> dict[str, int]:
    """Return a mapping of the path of each file and directory below the run's directory to its mode, except those that
    its ranks have created, and links."""
    found = {}
    for folder, names, files in os.walk(place.path(run)):
        if folder == place.path(run):
            names[:] = [name for name in names if name not in ("outputs", "user_logs")]
        for path in (os.path.join(folder, name) for name in [*names, *files]):
            status = os.lstat(path)
            if not stat.S_ISLNK(status.st_mode):
                found[os.path.relpath(path, place.path(run))] = stat.S_IMODE(status.st_mode)
    return found


def with_bits(modes: dict[str, int], bits: int = 0o077) -> dict[str, str]:
    return {path: "%03o" % mode for path, mode in modes.items() if mode & bits}


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o002], ids=lambda mask: "%03o" % mask)
def test_ranks_have_the_users_and_our_files_are_private(place: Place, mask: int) -> None:
    place.require_common_outputs()
    place.job(COMMAND, "2x2", setup=["touch outputs/by-setup"])
    with umask(mask):
        run = place.submit("job.yml")
        assert place.wait_for_end(run)["state"] == "SUCCEEDED"
    for rank in range(4):
        assert mode(place.path(run, "outputs"), "file-%d" % rank) == "%03o" % (0o666 & ~mask)
        assert mode(place.path(run, "outputs"), "dir-%d" % rank) == "%03o" % (0o777 & ~mask)
        assert int(place.read_output(run, "umask-%d" % rank), 8) == mask
    assert mode(place.path(run, "outputs"), "by-setup") == "%03o" % (0o666 & ~mask)
    found = file_modes(place, run)
    assert {"attempt-0/logs/rank-00003.log", "attempt-0/exit/node-0001.json", "batch.log"} <= set(found)
    assert with_bits(found) == {}
    assert mode(os.path.realpath(place.path(run))) == "700"


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun", "srun"])
def test_ranks_of_a_launcher_have_it(place: Place, launcher: str) -> None:
    place.require_common_outputs()
    if launcher == "torchrun":
        pytest.importorskip("torch")
    elif shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun")
    kind = "pytorch" if launcher == "torchrun" else "mpi"
    place.job(COMMAND, distribution={"type": kind, "launcher": launcher, "process_count_per_instance": 2})
    if launcher == "srun" and "steps" not in place.capabilities:
        refused = place("run", "job.yml")
        assert refused.code == 2 and "has no srun to start MPI ranks" in refused.err
        return
    with umask(0o027):
        run = place.submit("job.yml")
        assert place.wait_for_end(run)["state"] == "SUCCEEDED"
    assert [mode(place.path(run, "outputs"), "file-%d" % rank) for rank in range(2)] == ["640", "640"]
    found = file_modes(place, run)
    assert "attempt-0/logs/rank-00001.log" in found
    assert with_bits(found) == {}


def test_the_record_of_an_exception_is_private(place: Place) -> None:
    place.job("python3 -c 'raise ValueError'")
    with umask(0o002):
        run = place.submit("job.yml")
        assert place.wait_for_end(run)["state"] == "FAILED"
    found = file_modes(place, run)
    assert "attempt-0/errors/rank-00000.json" in found
    assert with_bits(found) == {}


@pytest.mark.parametrize(("mask", "expected"), [(0o002, "644"), (0o077, "640")], ids=["002", "077"])
def test_a_group_reads_what_ranks_make_and_does_not_write(place: Place, mask: int, expected: str) -> None:
    place.require_common_outputs()
    place.job(COMMAND, "1x1", share="group", setup=["touch outputs/by-setup"])
    with umask(mask):
        run = place.submit("job.yml")
        assert place.wait_for_end(run)["state"] == "SUCCEEDED"
    assert [mode(place.path(run, "outputs"), name) for name in ("file-0", "by-setup")] == [expected] * 2
    assert with_bits(file_modes(place, run), 0o027) == {}
    assert mode(place.path(run, "attempt-0", "logs", "rank-00000.log")) == "640"


def test_a_command_beside_the_ranks_has_it_too(place: Place) -> None:
    place.require("exec")
    place.job("touch outputs/up; sleep 120")
    with umask(0o027):
        run = place.submit("job.yml")
    wait_for(lambda: place.has_outputs(run, "up"), place.target.patience)
    with umask(0o002):
        result = place("exec", run, "--", "sh", "-c", "umask")
    place.ok("cancel", run, "--now")
    assert (result.code, int(result.out.split()[-1], 8)) == (0, 0o027), result
    place.wait_for_end(run)


def test_a_batch_script_and_its_steps_have_it(place: Place) -> None:
    place.write("job.sh", BATCH)
    if not {"local", "steps"} & place.capabilities:
        refused = place("run", "job.sh")
        assert refused.code == 2 and "batch" in refused.err
        return
    with umask(0o027):
        run = place.submit("job.sh")
        assert place.wait_for_end(run)["state"] == "SUCCEEDED"
    names = ("by-script", "by-task-0", "by-task-1", "printed-0", "printed-1")
    assert {name: mode(place.path(run, "outputs"), name) for name in names} == dict.fromkeys(names, "640")
    by_slurm = "attempt-0/logs/rank-" if "steps" in place.capabilities else ()
    assert [path for path in with_bits(file_modes(place, run)) if not path.startswith(by_slurm)] == []
