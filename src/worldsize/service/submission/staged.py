"""Variables of a plan for staged files, and for nodes without a network."""

from __future__ import annotations

from worldsize.common.path_mapping import Mapped, to_node_path
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.plan.node_disk import DIRECTORY_MARK, NodeDiskPlan
from worldsize.plan.plan import Plan
from worldsize.service.request import StagingDirectory

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""Variables that keep the libraries of Hugging Face from trying for minutes what cannot succeed offline."""


def with_staging_variables(
    plan: Plan, staged: StagingDirectory | None, settings: ComputeSettings, mapped: Mapped
) -> Plan:
    """Return `plan` with the environment variables by which libraries find staged files and, where nodes are offline,
    do not try to download. Variables that the job itself sets take precedence."""
    known = staged.variables if staged else {}
    own = {
        **(OFFLINE if settings.offline else {}),
        **{name: to_node_path(value, mapped) for name, value in known.items()},
    }
    if plan.batch is not None:  # its ranks on other nodes have no directory of the run
        own = {name: value for name, value in own.items() if DIRECTORY_MARK not in value}
    if any(DIRECTORY_MARK in value for value in own.values()) and plan.local is None:
        plan = plan._replace(local=NodeDiskPlan(settings.local_dir or ""))
    return plan._replace(activated={**plan.activated, **own})
