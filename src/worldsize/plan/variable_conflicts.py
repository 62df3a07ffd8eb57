"""Rank variables that a job sets to values that contradict its plan.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.plan.plan import Plan
from worldsize.plan.rank_environment import active_conventions
from worldsize.plan.rank_variables import VARIABLES, Host, RankContext, RendezvousResult

_NOT_SET_HERE: Mapping[str, tuple[str, ...]] = {
    "slurm": (
        "SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_GTIDS",
    ),
    "openmpi": (
        "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_SIZE", "OMPI_FIRST_RANKS", "PMI_", "PMIX_RANK", "PMIX_NAMESPACE",
        "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_", "HOROVOD_CROSS_",
    ),
}  # fmt: skip
"""Prefixes of a convention's rank variables that the table does not set, because no single value is right for all."""

UNSET = "unset"
_FREE = ("TORCHELASTIC_ERROR_FILE", "SLURM_JOB_NAME")
"""Rank variables that contradict no plan. A job may name another file, or itself."""


def contradictions(plan: Plan, wanted: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return those of the environment variables `wanted`, which a job sets, that contradict the rank variables of its
    plan, each as (name, value by the plan).

    The plan sets a variable only if its convention applies and the variable has a value. A job may repeat a value that
    is equal for all ranks. A variable that the convention's own launcher would set, and the table does not, has the
    value `UNSET`.
    """
    wanted_rows = active_conventions(plan)
    unknown = RendezvousResult("\0", -1, tuple(Host("\0", -1, "\0", (-1,) * len(node.ranks)) for node in plan.nodes))
    found = []
    for variable in VARIABLES:
        if variable.name not in wanted or variable.convention not in wanted_rows or variable.name in _FREE:
            continue
        values = {
            variable.value(RankContext(plan, unknown, node, rank, "\0", "\0"))
            for node in plan.nodes
            for rank in node.ranks
        }
        expected = {str(value) for value in values if value is not None}
        if expected and expected != {wanted[variable.name]}:
            found.append((variable.name, _expected_value(expected)))
    return found + [(name, UNSET) for name in wanted if _is_for_ranks(name, wanted_rows, plan.world_size)]


def _is_for_ranks(name: str, rows: Sequence[str], world_size: int) -> bool:
    """Return whether the variable `name`, which no row of VARIABLES for the conventions `rows` defines, contains a
    rank's place by one of these conventions. TF_CONFIG does if there are several ranks."""
    if any(variable.name == name for variable in VARIABLES if variable.convention in rows):
        return False
    if name == "TF_CONFIG":
        return world_size > 1
    return any(name.startswith(_NOT_SET_HERE.get(convention, ())) for convention in rows)


def _expected_value(values: set[str]) -> str:
    if len(values) > 1:
        return "a different value for each rank"
    value = next(iter(values))
    unknown = "\0" in value or "\\u0000" in value or value == "-1"
    return "chosen when the run starts" if unknown else value
