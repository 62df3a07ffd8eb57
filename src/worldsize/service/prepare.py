"""What would run: the job on its compute, planned and checked. Writes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.compute.base import CheckResult, Compute, ComputeFacts
from worldsize.errors import PlanError, UsageError
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.service.computes import choose_compute, open_compute
from worldsize.service.places import Places
from worldsize.service.planning import make_plan
from worldsize.service.preflight import preflight
from worldsize.spec.config import Config
from worldsize.spec.job import Job


class Progress:
    """What a person may want to know while a run is prepared; nobody is told unless a subclass does."""

    def notice(self, text: str) -> None:
        """Said once."""

    def step(self, what: str, done: int, total: int) -> None:
        """How far it is with something that may take long; `total` 0: not known. Called often."""


class Request(NamedTuple):
    """A job and everything around it that a submission needs.

    places  where each key of the job was said
    argv    the words that the user typed, for the record
    """

    job: Job
    config: Config
    compute: str | None
    environ: Mapping[str, str]
    cwd: str
    places: Places = Places()
    argv: Sequence[str] = ()


class Prepared(NamedTuple):
    job: Job
    plan: Plan
    compute: Compute
    notices: tuple[CheckResult, ...]


def plan_job(request: Request, paths: RunPaths, created: float) -> Prepared:
    """What would run, and what is to be said about it; writes nothing. UsageError with every problem at once."""
    try:
        return _plan_job(request, paths, created)
    except (UsageError, PlanError) as error:
        if error.where:
            error.where = request.places.at(error.where)
        raise


def _plan_job(request: Request, paths: RunPaths, created: float) -> Prepared:
    name = choose_compute(request.config, request.compute, request.job.compute)
    job = _with_grace(request.job, request.config.computes[name].grace)
    compute = open_compute(request.config, name, request.environ)
    facts: ComputeFacts = compute.facts(job)
    plan = make_plan(job, facts, name, paths, created, python_path(request.config, name, request.environ))
    findings = preflight(job, plan, compute, request.places)
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise _problems(errors)
    return Prepared(job._replace(compute=name), plan, compute, tuple(findings))


def _with_grace(job: Job, configured: float | None) -> Job:
    said_nothing = job.grace == Job._field_defaults["grace"]
    return job._replace(grace=configured) if configured is not None and said_nothing else job


def python_path(config: Config, compute: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Directories that decide what `python` means: the compute's `python`, else the activated environment's (already
    first on PATH), else the one of the Python that runs us, unless that is a tool's private environment."""
    configured = config.computes[compute].python
    if configured:
        return (os.path.dirname(configured) if os.path.isfile(configured) else configured,)
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        return ()
    if "/pipx/" in sys.prefix or "/uv/tools/" in sys.prefix:
        return ()
    return (os.path.dirname(sys.executable),)


def said(notice: CheckResult) -> str:
    text = "%s: %s" % (notice.where, notice.what) if notice.where else notice.what
    return "%s (%s)" % (text, notice.hint) if notice.hint else text


def _problems(errors: Sequence[CheckResult]) -> UsageError:
    first = errors[0]
    if len(errors) == 1:
        return UsageError(first.what, first.where, first.hint)
    lines = ["%d problems:" % len(errors)]
    lines += ["  " + said(error) for error in errors]
    return UsageError("\n".join(lines))
