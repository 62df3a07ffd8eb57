"""What a plan says of what its job stages, and of nodes without a network."""

from __future__ import annotations

from worldsize.common.path_mapping import Mapped, to_node_path
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.plan.node_disk import DIRECTORY_MARK, NodeDiskPlan
from worldsize.plan.plan import Plan
from worldsize.service.request import StagingDirectory

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""So that the libraries of Hugging Face do not try for minutes what cannot succeed."""


def with_staging_variables(
    plan: Plan, staged: StagingDirectory | None, settings: ComputeSettings, mapped: Mapped
) -> Plan:
    """`plan` with the variables that tell libraries what is staged, and that nothing can be had elsewhere. What the job
    itself sets wins."""
    known = staged.variables if staged else {}
    own = {
        **(OFFLINE if settings.offline else {}),
        **{name: to_node_path(value, mapped) for name, value in known.items()},
    }
    if plan.batch is not None:  # whose ranks on other nodes have no directory of the run's own
        own = {name: value for name, value in own.items() if DIRECTORY_MARK not in value}
    if any(DIRECTORY_MARK in value for value in own.values()) and plan.local is None:
        plan = plan._replace(local=NodeDiskPlan(settings.local_dir or ""))
    return plan._replace(activated={**plan.activated, **own})
