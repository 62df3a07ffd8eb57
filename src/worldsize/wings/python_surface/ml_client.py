"""`MLClient`, of which there is what submits a job: the step of Azure's samples that follows `command(…)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from worldsize.jobspec.job import Job
from worldsize.wings.python_surface.absent import refuse_absent
from worldsize.wings.python_surface.client import JobLike, read_job_like, submit

if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray
    from worldsize.service.runs.run import Run

_RUNS = (
    "open_run(name) returns a run: its .status, .wait(), .logs(), .outputs and .cancel(); `worldsize list` shows all"
)
_INPUTS = "nothing is registered: name the file or folder itself, Input(path=…)"
_ENVIRONMENTS = (
    "nothing is registered: environment=Environment(conda_file=…), and `worldsize env list` shows what was built"
)
_COMPUTES = 'computes are tables [compute.NAME] of worldsize.toml; this machine is compute="local"'
_WITHIN_JOBS = {
    "stream": "run.wait() follows it to its end; `worldsize logs -f` shows the ranks' output",
    "download": "run.outputs.NAME.path is an output's path, run.outputs.path that of ./outputs",
    "cancel": "run.cancel()",
    "begin_cancel": "run.cancel()",
    "show_services": "run.directory has everything of a run",
}
_ELSEWHERE = {
    "compute": _COMPUTES,
    "computes": _COMPUTES,
    "begin_create_or_update": _COMPUTES,
    "data": _INPUTS,
    "datastores": _INPUTS,
    "models": "a model is an output of a run: run.outputs.NAME.path",
    "environments": _ENVIRONMENTS,
    "workspaces": "runs are in ~/.worldsize, or in WORLDSIZE_HOME",
}


class MLClient:
    """Takes what Azure's takes, so that a sample's line stays as it is, and uses none of it: runs are submitted to the
    computes of worldsize.toml. `create_or_update`, also as `jobs.create_or_update`, is all there is; anything else
    raises UsageError, which says what there is instead."""

    def __init__(
        self,
        credential: Any = None,
        subscription_id: str | None = None,
        resource_group_name: str | None = None,
        workspace_name: str | None = None,
        registry_name: str | None = None,
        **_: Any,
    ) -> None:
        self.jobs = JobOperations()

    @classmethod
    def from_config(cls, credential: Any = None, **_: Any) -> MLClient:
        """Return the same: no file is read."""
        return cls(credential)

    def create_or_update(
        self,
        job: JobLike,
        *,
        description: str | None = None,
        compute: str | None = None,
        tags: Mapping[str, Any] | None = None,
        experiment_name: str | None = None,
        display_name: str | None = None,
        skip_validation: bool = False,
    ) -> Run | RunArray:
        """`jobs.create_or_update`."""
        return self.jobs.create_or_update(
            job,
            description=description,
            compute=compute,
            tags=tags,
            experiment_name=experiment_name,
            display_name=display_name,
            skip_validation=skip_validation,
        )

    def __getattr__(self, name: str) -> Any:
        return _refuse(f"MLClient.{name}", name, _ELSEWHERE.get(name, _RUNS))


class JobOperations:
    """`MLClient(…).jobs`."""

    def create_or_update(
        self,
        job: JobLike,
        *,
        description: str | None = None,
        compute: str | None = None,
        tags: Mapping[str, Any] | None = None,
        experiment_name: str | None = None,
        display_name: str | None = None,
        skip_validation: bool = False,
    ) -> Run | RunArray:
        """Submit a job, as `submit()`; return its run at once. Keywords take the place of what the job says. It is
        checked before anything is created, whatever `skip_validation` says.

        Raises as `submit()`; UsageError for what is no job.
        """
        changes = {
            "description": description,
            "tags": tags,
            "experiment_name": experiment_name,
            "display_name": display_name,
        }
        ready = read_job_like(job, "create_or_update()")
        changes = {name: value for name, value in changes.items() if value is not None}
        return submit(_with_keys(ready, changes) if changes else ready, compute=compute)

    def __getattr__(self, name: str) -> Any:
        return _refuse(f"MLClient.jobs.{name}", name, _WITHIN_JOBS.get(name, _RUNS))


def _with_keys(job: Job, changes: Mapping[str, Any]) -> Job:
    """Return the job with these keys, read as those of `command()`. Raises JobError for a value that is none of its
    key."""
    from worldsize.jobspec.keys.job import JOB
    from worldsize.jobspec.paths import current_directory
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.tree import to_node
    from worldsize.jobspec.reading.values import read_keys

    where = "create_or_update()"
    report = Problems(current_directory(where))
    values = read_keys(to_node(dict(changes), where).value, "", JOB, report)
    report.check()
    return job._replace(**values)


def _refuse(what: str, name: str, instead: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)  # what copying, printing and notebooks ask of every object
    return refuse_absent(what, instead)
