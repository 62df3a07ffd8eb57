"""The GPUs that a check sees are the node's, also where each rank is to see one of its own."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.checks.agent.preparation import _task

WORLD = RendezvousResult("10.1.2.3", 29871, (Host("a", 4), Host("b", 4)))


@pytest.mark.parametrize(
    ("own", "of_job", "seen"),
    [(None, None, None), ("2,3,5,7", None, "2,3,5,7"), ("2,3,5,7", "2,3", "2,3"), (None, "", "")],
)
def test_a_rank_with_a_gpu_of_its_own_does_not_hide_the_others(own: Any, of_job: Any, seen: Any) -> None:
    name = "CUDA_VISIBLE_DEVICES"
    plan = Plan(
        "run-7", "t", "lab", 1_795_000_000.5, 0, node_major_layout(2, 4), ("python", "train.py"),
        gpus=4, visible_devices=True, options={"check": {}}, environment={} if of_job is None else {name: of_job},
    )  # fmt: skip
    environ = {"PATH": "/bin", **({} if own is None else {name: own})}
    task = _task(NodeLaunch(plan, WORLD, plan.nodes[1], RunPaths("/runs/r"), environ), "10.1.2.4")
    assert task.environ.get(name) == seen


def test_the_checks_programs_have_no_secrets_and_leave_no_errors_of_ranks() -> None:
    """Found: an exception in a program of the check was kept as that of rank 0."""
    plan = Plan(
        "run-7", "t", "lab", 1_795_000_000.5, 0, node_major_layout(2, 4), ("python", "train.py"),
        options={"check": {}}, environment={"MINE": "x", "OTHER": "y"}, secrets=("MINE",),
    )  # fmt: skip
    launch = NodeLaunch(plan, WORLD, plan.nodes[1], RunPaths("/runs/r"), {"PATH": "/bin"})
    told, ranks = _task(launch, "10.1.2.4").environ, next(launch.ranks()).environment
    assert set(ranks) - set(told) >= {"MINE", "WORLDSIZE_ERROR_FILE"}
    assert told["OTHER"] == "y" and not [name for name in told if name.endswith("ERROR_FILE")]
