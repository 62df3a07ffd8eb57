"""The Python surface's verbs: submit a job, open a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from worldsize.errors import UsageError
from worldsize.service.prepare import Progress, Request
from worldsize.service.run import Run
from worldsize.service.submit import start
from worldsize.spec.command import CommandJob
from worldsize.spec.config import load_config
from worldsize.spec.job import Job
from worldsize.spec.jobfile import load_job as read_job_file


def load_job(path: str | os.PathLike[str]) -> Job:
    """The job in a file. JobError, with file and line, for one that is not right."""
    loaded = read_job_file(os.fspath(path))
    _warn(loaded.warnings)
    return loaded.job


def submit(
    job: Job | CommandJob | str | os.PathLike[str],
    *,
    compute: str | None = None,
    world: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Run:
    """Start a job (from `command()`, `load_job()`, or a job file's path); its run, which goes on without us.

    `world` is "NxM": nodes × processes per node. Raises UsageError with every problem found before anything was
    created, SubmitRejected when the compute says no.
    """
    environ = os.environ if environ is None else environ
    ready = _job(job)
    if world is not None:
        from worldsize.spec.overrides import with_world

        ready = with_world(ready, world, "world")
    cwd = os.getcwd()
    request = Request(ready, load_config(cwd, environ), compute, environ, cwd, argv=sys.argv)
    return Run(start(request, _Logged()), environ)


def open_run(run: str | None = None, *, environ: Mapping[str, str] | None = None) -> Run:
    """A run by its id, a unique beginning of it, or its directory; the latest when left out. NotFound otherwise."""
    from worldsize.store.find import resolve

    environ = os.environ if environ is None else environ
    return Run(resolve(load_config(os.getcwd(), environ).home, run), environ)


def _job(job: object) -> Job:
    if isinstance(job, CommandJob):
        built, warnings = job.build()
        _warn(warnings)
        return built
    if isinstance(job, Job):
        return job
    if isinstance(job, (str, os.PathLike)):
        return load_job(job)
    raise UsageError("submit() wants a job, not %s" % type(job).__name__, None, "make one with command() or load_job()")


def _warn(warnings: tuple[str, ...] | list[str]) -> None:
    import warnings as standard

    for text in warnings:
        standard.warn(text, stacklevel=4)


class _Logged(Progress):
    def notice(self, text: str) -> None:
        import logging

        logging.getLogger("worldsize").info("%s", text)
