"""What of a job only Azure's service honours: it is kept, and said."""

from __future__ import annotations

from worldsize.compute.base import CheckResult
from worldsize.jobspec.job import Job
from worldsize.jobspec.paths import is_remote
from worldsize.service.request import KeyOrigins


def notices(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    found = [
        CheckResult(
            "notice",
            f"only Azure ML honours {output.path}: it is written to outputs/{name} of the run",
            origins.of(f"outputs.{name}.path"),
        )
        for name, output in job.outputs.items()
        if output.path and is_remote(output.path)
    ]
    keys = service_only_keys(job)
    return [*found, CheckResult("notice", f"kept, but only Azure ML honours: {', '.join(keys)}")] if keys else found


def service_only_keys(job: Job) -> list[str]:
    """The keys of `job` that mean something to Azure's service alone, as YAML paths, in the order of the schema."""
    resources = job.resources
    found = {
        "properties": job.properties,
        "compute": (job.compute or "").startswith("azureml:"),
        "resources.instance_type": resources.instance_type,
        "resources.shm_size": resources.shm_size,
        "resources.docker_args": resources.docker_args,
        "resources.locations": resources.locations,
        "resources.max_instance_count": resources.max_instance_count,
        "resources.properties": resources.properties,
        "queue_settings": job.queue_settings,
        "services": job.services,
        "identity": job.identity,
        "parent_job_name": job.parent_job_name,
    }
    for name, output in job.outputs.items():
        found[f"outputs.{name}.name"] = output.name
        found[f"outputs.{name}.version"] = output.version
    return [key for key, value in found.items() if value]
