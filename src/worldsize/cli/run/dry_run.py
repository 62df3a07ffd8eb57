"""--dry-run: exactly what would be started. Nothing is created."""

from __future__ import annotations

import os
import time

from worldsize.cli.output import show, show_document
from worldsize.cli.progress_line import NoticePrinter
from worldsize.common.atomic_files import printable_text
from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.environments.location import envs_dir
from worldsize.service.provisioning.inputs import data_directory
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.submission.plan_job import format_notice, plan_job
from worldsize.trust.directories import may_others_create, user_directory_in


def dry_run(request: SubmissionRequest) -> int:
    if request.job.matrix or request.job.count is not None:
        from worldsize.cli.runs.array import dry_run

        return dry_run(request, _preview)
    created = time.time()
    prepared = plan_job(request, RunPaths(os.path.join(request.config.home, "runs", "RUN")), created)
    for notice in prepared.notices:
        NoticePrinter().notice(format_notice(notice))
    settings = request.config.computes[prepared.plan.compute]
    runs_dir = settings.own_runs_dir or os.path.join(request.config.home, "runs")
    scripted = "script" in prepared.compute.capabilities
    if scripted:
        _require_directories(request, prepared)
        if prepared.environment is not None and not prepared.environment.ready:
            what = "the environment is not built, and this script does not build it (worldsize env build): %s"
            NoticePrinter().notice(what % printable_text(prepared.environment.prefix or ""))
    paths = RunPaths(os.path.join(runs_dir, _new_id(created) if scripted else "RUN"))
    prepared = plan_job(request, paths, created, checked=True)
    if scripted:
        show_document(_script(request, prepared, paths))
    else:
        show(*_preview(request, prepared, paths))
    return 0


def _require_directories(request: SubmissionRequest, prepared: PlannedJob) -> None:
    """A script that is submitted by hand makes no directory that others could make sooner, and executes, or hands to
    ranks, what lies in it. StorageError."""
    config, name = request.config, prepared.plan.compute
    runs_dir = config.computes[name].own_runs_dir
    missing = [runs_dir] if runs_dir and not os.path.isdir(runs_dir) else []
    missing += filter(may_others_create, (envs_dir(config, config.computes[name]), data_directory(config, name)))
    for path in missing:
        what = "is not there, and a script that is submitted by hand does not make it: others could, sooner"
        mode = 711 if path == user_directory_in(os.path.dirname(path)) else 700
        raise StorageError(what, printable_text(path), f"mkdir -p -m {mode} {printable_text(path)}")


def _new_id(now: float) -> str:
    from worldsize.store.runs import new_run_id

    return new_run_id(now, os.urandom)


def _preview(request: SubmissionRequest, prepared: PlannedJob, paths: RunPaths) -> list[str]:
    from worldsize.cli.run.plan_preview import preview

    return preview(prepared, paths, request.environ)


def _script(request: SubmissionRequest, prepared: PlannedJob, paths: RunPaths) -> str:
    """Alone, so that it can be kept and submitted by hand."""
    from worldsize.service.submission.run_directory import embedded_files

    job, plan = prepared.job, prepared.plan
    return prepared.compute.render(job, plan, paths, lambda: embedded_files(job, plan, request.config.home)).preview
