"""The `services` of a job: those that start next to the first rank, and the notices about the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins

_STARTED = {"tensorboard": "tensor_board", "jupyterlab": "jupyter_lab"}
"""The type in a plan, by the type's name in lower case without underscores, since spellings of types differ in
these."""


def service_plans(job: Job) -> dict[str, dict[str, Any]]:
    """Return the services of the job that the first node's agent must start, by name: `type`, and `port` and `log_dir`
    if the job has them. In older files the latter is `properties.logDir`."""
    found = {}
    for name, service in job.services.items():
        kind = _STARTED.get(_plain_type(service))
        if kind is not None:
            older = (service.get("properties") or {}).get("logDir")
            log_dir = service.get("log_dir") or (older if isinstance(older, str) else None)
            said = {key: value for key, value in (("port", service.get("port")), ("log_dir", log_dir)) if value}
            found[name] = {"type": kind, **said}
    return found


def notices(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return a notice, as a CheckResult, for each service of the job that does not start, or that the job requests on
    all nodes although it starts only next to the first rank."""
    found = []
    for name, service in job.services.items():
        if _plain_type(service) not in _STARTED:
            kind = service.get("type") or service.get("job_service_type")
            what = f"{kind} does not start here; worldsize shell RUN opens a shell on a node"
        elif service.get("nodes") == "all" and job.resources.instance_count > 1:
            what = "starts next to the first rank only, not on all nodes"
        else:
            continue
        found.append(CheckResult("notice", what, origins.of(f"services.{name}"), id="service"))
    return found


def _plain_type(service: Mapping[str, Any]) -> str:
    said = str(service.get("type") or service.get("job_service_type") or "")
    return said.replace("_", "").lower()
