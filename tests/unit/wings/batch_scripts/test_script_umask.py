"""The umask of a batch script's steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.plan.plan import BatchPlan, Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.batch_scripts.agent.launcher import batch_environment


def plan_of(batch: BatchPlan) -> Plan:
    said = {"environment": {}, "launcher": "batch", "umask": 0o077, "ranks_umask": 0o027, "batch": batch}
    return Plan("run-7", "t", "lab", 1.5, 0, node_major_layout(1, 1), ("sh",), **said)


@pytest.mark.parametrize("virtual", [True, False])
def test_a_batch_script_tells_the_real_srun(tmp_path: Path, virtual: bool) -> None:
    """Which passes SLURM_UMASK on to the steps: sbatch was started with ours."""
    plan = plan_of(BatchPlan(("n0",) if virtual else ()))
    paths = RunPaths(str(tmp_path))
    assert batch_environment(plan, paths, {"SLURM_UMASK": "0077"})["SLURM_UMASK"] == "0027"
    older = batch_environment(plan._replace(ranks_umask=None), paths, {"SLURM_UMASK": "0077"})
    assert older.get("SLURM_UMASK") == (None if virtual else "0077")
