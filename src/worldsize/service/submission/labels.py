"""What people sort runs by: the experiment, the description and the tags of a job."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.jobspec.job import Job
from worldsize.trust.secrets import mask_tree


def labels_of(job: Job) -> dict[str, Any]:
    """The labels that `job` gives, for its plan; secrets in them are masked."""
    said = {"experiment_name": job.experiment_name, "description": job.description, "tags": dict(job.tags)}
    return {name: mask_tree(value, sparing=True) for name, value in said.items() if value}
