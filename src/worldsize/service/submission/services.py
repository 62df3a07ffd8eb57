"""The interactive services of a job, which a wing starts beside the ranks of the first node."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.registry import find_module
from worldsize.service.request import KeyOrigins


def service_plans(job: Job) -> Mapping[str, Mapping[str, Any]]:
    """What the first node is to start, by name; nothing where this installation is without the wing."""
    wing = find_module("wings.services.job") if job.services else None
    return wing.service_plans(job) if wing is not None else {}


def service_notices(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Notices about services that do not start; none where this installation is without the wing."""
    wing = find_module("wings.services.job") if job.services else None
    return list(wing.notices(job, origins)) if wing is not None else []
