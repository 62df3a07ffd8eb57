"""`srun` of a batch script on virtual nodes, where other users make files too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from security.people import ANNA, BEN, Machine, Person


@pytest.fixture
def anna(machine: Machine) -> Person:
    anna = machine.person(ANNA)
    anna.write("task.sh", "echo mine\n")
    return anna


def run(anna: Person, line: str) -> str:
    """The log of the only rank."""
    anna.write("job.slurm", "#!/bin/bash\n#SBATCH -n 1\n%s\n" % line)
    anna("run", "-q", "job.slurm")
    return anna.read(anna.latest(), "attempt-0", "logs", "rank-00000.log")


def test_a_directory_that_is_missing_here(machine: Machine, anna: Person) -> None:
    """Found by review: as real srun, it went to /tmp, and another user's program was executed there."""
    name = "task-%d.sh" % os.getpid()
    planted = Path("/tmp", name)
    planted.write_text("echo planted\n")
    os.chown(planted, BEN, BEN)
    try:
        anna.write(name, "echo mine\n")
        log = run(anna, "srun --chdir=/no/such/directory sh %s" % name)
    finally:
        planted.unlink()
    assert log.splitlines()[-1] == "mine"
    assert "couldn't chdir to `/no/such/directory': No such file or directory: staying in " in log
    anna.close()


@pytest.mark.parametrize("owner", [ANNA, BEN])
def test_output_through_a_link(machine: Machine, anna: Person, owner: int) -> None:
    """Found by review: a file of the user's own was written over through another user's link."""
    precious, link = Path(anna.write("precious", "precious\n")), Path(machine.directory(0o777), "out")
    link.symlink_to(precious)
    os.chown(link, owner, owner, follow_symlinks=False)
    log = run(anna, "srun --output=%s sh task.sh" % link)
    if owner == ANNA:
        assert precious.read_text() == "mine\n"
    else:
        assert precious.read_text() == "precious\n" and "Too many levels of symbolic links" in log
    anna.close()
