"""Variables by which a framework believes in a Slurm that is not there: where they are set, and where they are not."""

from __future__ import annotations

import pytest

from worldsize.plan.plan import BatchPlan, Plan, node_major_layout
from worldsize.plan.rank_environment import rank_environment
from worldsize.plan.rank_variables import (
    CONVENTIONS,
    ON_SLURM_ALONE,
    VARIABLES,
    Host,
    RankContext,
    RendezvousResult,
    is_slurm_meant,
)
from worldsize.plan.variable_conflicts import contradictions

OF_SLURM = [row.name for row in VARIABLES if row.convention == "slurm" and "ARRAY" not in row.name]
WHERE_KNOWN = {"SLURM_GPUS_ON_NODE"}
SESSION = "SLURM_JOB_NAME"
"""What stands for a session without a batch job, and is no variable of a job of Slurm."""

NEEDED = {
    "SLURM_JOB_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NNODES",
    "SLURM_NTASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_NUM_NODES", "SLURMD_NODENAME",
}  # fmt: skip
"""What scripts written for srun read, and JAX."""


def plan_of(**fields: object) -> Plan:
    values = {"environment": {}, **fields}
    return Plan("run-7", "t", "lab", 1_795_000_000.75, 0, node_major_layout(2, 1), ("true",), **values)  # type: ignore[arg-type]


def environment_of(plan: Plan, node: dict[str, str] | None = None) -> dict[str, str]:
    """The environment of the last rank, on a node that has these variables."""
    world = RendezvousResult("10.1.2.3", 29871, (Host("a", 8), Host("b", 8)))
    context = RankContext(plan, world, plan.nodes[1], plan.nodes[1].ranks[0], "/runs/r", "/runs/r/error.json")
    return rank_environment(context, node or {}, 1)


def test_what_misleads_a_framework_is_left_out() -> None:
    found = environment_of(plan_of())
    assert ON_SLURM_ALONE and not set(ON_SLURM_ALONE) & set(found)
    assert set(OF_SLURM) - set(ON_SLURM_ALONE) - WHERE_KNOWN <= set(found)


def test_what_scripts_for_srun_read_stays() -> None:
    assert set(environment_of(plan_of())) >= NEEDED and not NEEDED & set(ON_SLURM_ALONE)


def test_ranks_are_no_batch_job_of_slurm() -> None:
    """Lightning's own rule: with this name it takes nothing from Slurm's variables."""
    assert environment_of(plan_of())[SESSION] == "bash"


@pytest.mark.parametrize("others", [(), ("torch",), ("jax", "openmpi")])
def test_a_job_that_names_the_convention_gets_all_of_it(others: tuple[str, ...]) -> None:
    found = environment_of(plan_of(conventions=("slurm", *others)))
    assert set(OF_SLURM) - {SESSION} - WHERE_KNOWN <= set(found) and SESSION not in found
    assert found["SLURM_JOBID"] == found["SLURM_JOB_ID"] == "1795000000"


def test_on_slurm_all_variables_are_its_own() -> None:
    node = {"SLURM_JOB_ID": "1234", "SLURM_JOBID": "1234", SESSION: "train"}
    found = environment_of(plan_of(kept=tuple(node)), node)
    assert set(OF_SLURM) - WHERE_KNOWN <= set(found)
    assert node.items() <= found.items()


def test_on_slurm_a_variable_that_the_node_lacks_is_ours() -> None:
    found = environment_of(plan_of(kept=("SLURM_JOB_ID", "SLURM_JOBID", SESSION)))
    assert found["SLURM_JOBID"] == "1795000000" and SESSION not in found


def test_a_batch_script_is_a_job_of_slurm() -> None:
    assert is_slurm_meant(plan_of(batch=BatchPlan(("a", "b"))))
    assert not is_slurm_meant(plan_of()) and not is_slurm_meant(plan_of(conventions=("torch",)))


@pytest.mark.parametrize("convention", sorted({*CONVENTIONS} - {"slurm"}))
def test_another_convention_alone_brings_nothing_of_slurm(convention: str) -> None:
    assert not {name for name in environment_of(plan_of(conventions=(convention,))) if name.startswith("SLURM")}


@pytest.mark.parametrize("name", [SESSION, *ON_SLURM_ALONE])
def test_a_job_may_set_them_itself(name: str) -> None:
    plan = plan_of(environment={name: "mine"})
    assert contradictions(plan, plan.environment) == []
    assert environment_of(plan)[name] == "mine"


def test_a_job_that_names_the_convention_may_not_contradict_it() -> None:
    plan = plan_of(conventions=("slurm",))
    assert contradictions(plan, {"SLURM_JOBID": "7"}) == [("SLURM_JOBID", "1795000000")]
