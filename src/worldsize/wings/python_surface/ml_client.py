"""The class `MLClient`, as far as it submits a job: the step that follows `command(…)` in Azure's samples."""

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
    """A replacement for Azure's client that submits jobs to the computes of worldsize.toml. It accepts the arguments of
    Azure's class, so that a sample's line works unchanged, and ignores them. Only `create_or_update`, also as
    `jobs.create_or_update`, exists; anything else raises UsageError, which names the alternative."""

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
        """Return a new MLClient. The arguments of Azure's method are accepted and ignored, and no configuration file is
        read."""
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
        """Submit `job` with the given keys replaced, and return its Run or RunArray, as `jobs.create_or_update`
        does."""
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
    """The class of `MLClient(…).jobs`."""

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
        """Submit `job`, as `submit()` does, and return its Run or RunArray at once. The keywords that are not None
        replace the keys of the job. The job is always checked before anything is created; `skip_validation` has no
        effect.

        Raise the errors of `submit()`; UsageError if `job` is not a job.
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
    """Return `job` with the keys in `changes` replaced; their values are read as those of `command()`. Raise JobError
    if a value is not valid for its key."""
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
        raise AttributeError(name)  # copying, printing and notebooks look up such names on every object
    return refuse_absent(what, instead)
