"""Links in a run's code to what its batch script names and the snapshot leaves out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.snapshot import take_snapshot
from worldsize.store.runs import objects_dir
from worldsize.wings.batch_scripts.script.job import load_script
from worldsize.wings.batch_scripts.submission import link_left_out_paths


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Code whose script names what it ignores, behind links."""
    project = tmp_path / "project"
    (project / "v3").mkdir(parents=True)
    (project / "data").mkdir()
    (project / "v3" / "small").write_text("small")
    (project / "v3" / "big.bin").write_text("big")
    (project / ".gitignore").write_text("*.bin\n")
    (project / "latest").symlink_to("v3")
    (project / "job.slurm").write_text("#!/bin/bash\ncat latest/big.bin data/theirs/config\n")
    return project


@pytest.fixture
def job(project: Path) -> Job:
    return load_script(str(project / "job.slurm"), str(project)).job


def snapshot(job: Job, tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path / "runs" / "r"))
    for directory in paths.directories():
        os.makedirs(directory)
    assert job.code is not None
    take_snapshot(job.code, paths, objects_dir(str(tmp_path / "runs")))
    return paths


def test_a_link_of_ones_own_in_the_code_is_entered(job: Job, tmp_path: Path) -> None:
    paths = snapshot(job, tmp_path)
    assert link_left_out_paths(job, paths) == ["latest/big.bin"]
    assert (Path(paths.code) / "v3" / "big.bin").read_text() == "big"


def test_a_link_of_anothers_is_not_entered(
    project: Path, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by review: exchanged between two looks, it had a link made in any directory of the user's."""
    if os.geteuid() != 0:
        pytest.skip("only root can make another user's link")
    theirs = project / "data" / "theirs"
    (tmp_path / "attacker").mkdir()
    (tmp_path / "attacker" / "config").write_text("[core]")
    (tmp_path / "home").mkdir()

    def lead_to(target: Path) -> None:
        theirs.unlink(missing_ok=True)
        theirs.symlink_to(target)
        os.chown(theirs, 61002, 61002, follow_symlinks=False)

    def exists_and_exchange(path: str) -> bool:
        found = exists(path)
        if path.endswith("data/theirs/config"):
            lead_to(tmp_path / "home")
        return found

    lead_to(tmp_path / "attacker")
    paths = snapshot(job, tmp_path)
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", exists_and_exchange)
    assert link_left_out_paths(job, paths) == ["latest/big.bin"]
    assert os.readlink(theirs) == str(tmp_path / "home") and os.listdir(tmp_path / "home") == []
