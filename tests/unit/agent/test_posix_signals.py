"""Whom a scheduler tells of a limit: all of a step's processes, or its tasks alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.agent.posix.signals import is_in_step_cgroup


@pytest.mark.parametrize(
    ("groups", "alone"),
    [
        ("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n", True),
        ("9:name=systemd:/\n6:freezer:/slurm_node1/uid_0/job_1/step_0\n0::/\n", True),
        ("6:freezer:/slurm/uid_0/job_1/step_extern\n", True),
        ("6:freezer:/\n4:memory:/slurm/uid_0/job_1/step_0/task_0\n0::/\n", False),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", False),
        ("0::/system.slice/slurmstepd.scope/job_7\n", False),
        ("", False),
    ],
)
def test_where_slurm_tracks_a_step_by_its_control_group_it_tells_tasks_alone(
    tmp_path: Path, groups: str, alone: bool
) -> None:
    (tmp_path / "cgroup").write_text(groups)
    assert is_in_step_cgroup(str(tmp_path / "cgroup")) == alone


def test_without_control_groups_all_are_told(tmp_path: Path) -> None:
    assert not is_in_step_cgroup(str(tmp_path / "cgroup"))
