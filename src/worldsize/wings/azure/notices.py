"""Notices about the keys of a job that only Azure's service honours, and about the meaning of its names here."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.jobspec.paths import is_remote
from worldsize.service.request import KeyOrigins, SubmissionRequest
from worldsize.wings.azure.mappings import compute_name

SERVICE_ONLY: Mapping[str, str] = {
    "properties": "only the service reads it; the record keeps it",
    "resources.instance_type": "the service's size of machines; nodes are those of the compute",
    "resources.docker_args": "for the service's container",
    "resources.locations": "regions of the service",
    "resources.max_instance_count": "the service's scaling; the run has instance_count nodes",
    "resources.properties": "only the service reads it",
    "queue_settings": "tiers and priorities of the service",
    "identity": "the service's; ranks run as you",
    "parent_job_name": "a job of the service; the record keeps it",
}
"""The keys of a job that only Azure's service uses, in the order of the schema, with the reason."""
SERVICE_ONLY_OUTPUTS: Mapping[str, str] = {
    "name": "the service registers outputs; here it is a directory",
    "version": "the service registers outputs; here it is a directory",
}
"""The keys of an output that only Azure's service uses, with the reason."""


def notices(request: SubmissionRequest, job: Job) -> list[CheckResult]:
    """Return notices for the user about keys of `job` that only Azure's service honours, as a list of CheckResult. The
    `compute` of the job is still as the job file names it."""
    origins = request.origins
    found = [
        CheckResult(
            "notice",
            f"only Azure ML honours {output.path}: it is written to outputs/{name} of the run",
            origins.of(f"outputs.{name}.path"),
            id="azure-only",
        )
        for name, output in job.outputs.items()
        if output.path and is_remote(output.path)
    ]
    if job.compute and not request.compute:
        found += _compute_notice(job.compute, request, origins)
    keys = service_only_keys(job)
    hint = "run with --dry-run to see what each key means here" if origins.lines else None
    return (
        [
            *found,
            CheckResult("notice", f"kept, but only Azure ML honours: {', '.join(keys)}", hint=hint, id="azure-only"),
        ]
        if keys
        else found
    )


def _compute_notice(said: str, request: SubmissionRequest, origins: KeyOrigins) -> list[CheckResult]:
    """Return a notice, in a list, if the default compute replaces the service's compute `said`, because no setting maps
    that name; else []."""
    meant = compute_name(said, request.config)
    if not meant.by_default:
        return []
    name = said.removeprefix("azureml:")
    hint = f'to run elsewhere: "{name}" = "COMPUTE" in [azure.computes] of worldsize.toml, or --compute'
    return [
        CheckResult(
            "notice",
            f"{said} means the default compute here, {meant.name}",
            origins.of("compute"),
            hint,
            id="azure-compute",
        )
    ]


def service_only_keys(job: Job) -> list[str]:
    """Return the keys of `job` that only Azure's service uses, as YAML paths, in the order of the schema."""
    found = []
    for key in SERVICE_ONLY:
        name, _, inner = key.partition(".")
        value = getattr(job, name)
        if getattr(value, inner) if inner else value:
            found.append(key)
    for name, output in job.outputs.items():
        found += [f"outputs.{name}.{key}" for key in SERVICE_ONLY_OUTPUTS if getattr(output, key)]
    return found
