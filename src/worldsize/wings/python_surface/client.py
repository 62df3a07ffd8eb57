"""Functions of the Python API: submit a job, open a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast, overload

from worldsize.compute.base import RunDependency
from worldsize.errors import UsageError
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job, is_array_job
from worldsize.jobspec.paths import current_directory
from worldsize.jobspec.reading.job_file import load_job as read_job_file
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.runs.open import open_runs
from worldsize.service.runs.run import Run
from worldsize.service.submission.submit import start
from worldsize.wings.python_surface.command_job import CommandJob

if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray

    RunLike = str | Run | RunArray

JobLike = Job | CommandJob | str | os.PathLike[str]


def load_job(path: str | os.PathLike[str]) -> Job:
    """Read the job file at `path` and return its Job. The file's warnings become Python warnings. Raise JobError, with
    file and line, if the job is not valid."""
    loaded = read_job_file(os.fspath(path))
    _warn(loaded.warnings)
    return loaded.job


@overload
def submit(
    job: JobLike,
    *,
    matrix: Mapping[str, Iterable[Any]],
    at_once: int | None = None,
    compute: str | None = None,
    world: str | None = None,
    after: RunLike | Iterable[RunLike] = (),
    environ: Mapping[str, str] | None = None,
) -> RunArray: ...


@overload
def submit(
    job: JobLike,
    *,
    count: int,
    at_once: int | None = None,
    compute: str | None = None,
    world: str | None = None,
    after: RunLike | Iterable[RunLike] = (),
    environ: Mapping[str, str] | None = None,
) -> RunArray: ...


@overload
def submit(
    job: JobLike,
    *,
    compute: str | None = None,
    world: str | None = None,
    after: RunLike | Iterable[RunLike] = (),
    environ: Mapping[str, str] | None = None,
) -> Run: ...


def submit(
    job: JobLike,
    *,
    matrix: Mapping[str, Iterable[Any]] | None = None,
    count: int | None = None,
    at_once: int | None = None,
    compute: str | None = None,
    world: str | None = None,
    after: RunLike | Iterable[RunLike] = (),
    environ: Mapping[str, str] | None = None,
) -> Run | RunArray:
    """Start a job, given by `command()`, `load_job()` or the path of a job file. Return its Run, which does not depend
    on this process.

    `compute` replaces the job's compute. `world` is "NxM": nodes × processes per node. `matrix` (inputs to lists of
    values) or `count` start several runs, at most `at_once` at the same time, and return a RunArray; so does a job that
    contains one of them itself. `after` names runs, or arrays, that have to reach SUCCEEDED before it starts. `environ`
    replaces this process's environment variables.

    Raise UsageError, with every problem found before anything was created; PlanError if the job does not fit the
    compute; SubmitRejected if the compute refuses it.
    """
    environ = os.environ if environ is None else environ
    ready = _with_array_options(read_job_like(job, "submit()"), matrix, count, at_once)
    if world is not None:
        from worldsize.jobspec.overrides import with_world

        ready = with_world(ready, world, "world")
    cwd = current_directory("submit()")
    config, progress = load_config(cwd, environ), _LoggedProgress()
    for notice in config.notices:
        progress.notice(notice, "configuration")
    request = SubmissionRequest(
        ready, config, compute, environ, cwd, argv=sys.argv, after=_dependencies(after, config.home, environ)
    )
    return open_runs(start(request, progress), environ)


def open_run(run: str | None = None, *, environ: Mapping[str, str] | None = None) -> Run:
    """Return the Run that `run` names: by its id, a unique beginning of its id, its name or its directory. If `run` is
    None, return the latest run that was started from the current directory. Raise NotFound if there is none, UsageError
    if it is an array of runs."""
    found = _find(run, os.environ if environ is None else environ)
    if not isinstance(found, Run):
        raise UsageError(f"{found.id} is an array of runs", None, "open_array() opens it")
    return found


def open_array(run: str | None = None, *, environ: Mapping[str, str] | None = None) -> RunArray:
    """Return the RunArray that `run` names: by id, unique beginning of an id, name or directory; if `run` is None, the
    latest that was started from the current directory. Raise NotFound if there is none, UsageError if it is a single
    run."""
    found = _find(run, os.environ if environ is None else environ)
    if isinstance(found, Run):
        raise UsageError(f"{found.id} is not an array", None, "open_run() opens it")
    return found


def _find(run: str | None, environ: Mapping[str, str]) -> Run | RunArray:
    from worldsize.store.find import find_latest_from, find_run_paths

    directory = current_directory("open_run()")
    home = load_config(directory, environ).home
    return open_runs(find_latest_from(home, directory) if run is None else find_run_paths(home, run), environ)


def _with_array_options(
    job: Job, matrix: Mapping[str, Iterable[Any]] | None, count: int | None, at_once: int | None
) -> Job:
    if matrix is not None:
        job = _with_values(job, matrix)
    if count is not None:
        from worldsize.jobspec.reading.matrix import with_count

        job = with_count(job, count, "submit(): count")
    if at_once is None:
        return job
    if not is_array_job(job) or at_once <= 0:
        raise UsageError("at_once has no meaning for a single run", "submit()", "set matrix or count too")
    return job._replace(at_once=at_once)


def _with_values(job: Job, matrix: Mapping[str, Iterable[Any]]) -> Job:
    """Return `job` with the inputs in `matrix` varied, so that it starts several runs. `matrix` maps each input's name
    to an iterable of literals. Raise JobError if it is not valid."""
    from worldsize.jobspec.keys.key import Key
    from worldsize.jobspec.reading.matrix import check_array, read_matrix
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.tree import to_node

    listed: object = matrix
    if isinstance(matrix, Mapping):
        listed = {name: list(values) if _is_iterable(values) else values for name, values in matrix.items()}
    node = to_node({"matrix": listed}, "submit()")
    report = Problems()
    read = read_matrix(node.value["matrix"], "matrix", Key("matrix", ""), report)
    changed = job._replace(matrix={**job.matrix, **read})
    check_array(node.value, changed, report)
    report.check()
    return changed


def _is_iterable(values: object) -> bool:
    return hasattr(values, "__iter__") and not isinstance(values, (str, Mapping))


def _dependencies(
    after: RunLike | Iterable[RunLike], home: str, environ: Mapping[str, str]
) -> tuple[RunDependency, ...]:
    from worldsize.service.submission.dependencies import find_dependencies
    from worldsize.store.find import find_run_paths

    one = isinstance(after, str) or hasattr(after, "paths")
    several = [cast("RunLike", after)] if one else list(cast("Iterable[RunLike]", after))
    return find_dependencies(
        [find_run_paths(home, each) if isinstance(each, str) else each.paths for each in several], environ
    )


def read_job_like(job: object, caller: str) -> Job:
    """Return `job` as a Job: itself, the job that a CommandJob builds, or the job in the file at that path. Raise
    UsageError, which names the `caller`, if it is anything else; JobError if the job is not valid."""
    if isinstance(job, CommandJob):
        built, warnings = job.build()
        _warn(warnings)
        return built
    if isinstance(job, Job):
        return job
    if isinstance(job, (str, os.PathLike)):
        return load_job(job)
    what = f"{caller} needs a job, not {type(job).__name__}"
    raise UsageError(what, None, "make one with command() or load_job()")


def _warn(warnings: tuple[str, ...] | list[str]) -> None:
    import warnings as standard

    for text in warnings:
        standard.warn(text, stacklevel=4)


class _LoggedProgress(Progress):
    def show_notice(self, text: str) -> None:
        import logging

        logging.getLogger("worldsize").info("%s", text)
