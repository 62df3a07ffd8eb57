"""--dry-run: exactly what would be started. Nothing is created."""

from __future__ import annotations

import os
import time

from worldsize.cli.output import show, show_document
from worldsize.cli.progress_line import NoticePrinter
from worldsize.common.atomic_files import printable_text
from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.service.environments.location import envs_dir
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.submission.inputs import data_directory
from worldsize.service.submission.plan_job import format_notice, plan_at, plan_job, secrets_of_elements
from worldsize.service.submission.run_directory import embedded_files
from worldsize.store.runs import new_run_id
from worldsize.trust.directories import may_others_create, user_directory_in
from worldsize.trust.secrets import mask_values


def dry_run(request: SubmissionRequest) -> int:
    """Show what would be submitted, and submit nothing; of an array the first run, and which inputs the others have."""
    created = time.time()
    planned = plan_job(request, created)
    for notice in planned.notices:
        NoticePrinter().notice(format_notice(notice))
    scripted = "script" in planned.compute.capabilities and not planned.is_array
    if scripted:
        _require_directories(request, planned)
        if planned.environment is not None and not planned.environment.ready:
            what = "the environment is not built, and this script does not build it (worldsize env build): %s"
            NoticePrinter().notice(what % printable_text(planned.environment.prefix or ""))
    runs_dir = request.config.computes[planned.plan.compute].own_runs_dir or os.path.join(request.config.home, "runs")
    planned = plan_at(
        planned, request, RunPaths(os.path.join(runs_dir, new_run_id(created, os.urandom) if scripted else "RUN"))
    )
    if scripted:
        show_document(_script(request, planned))
        return 0
    from worldsize.cli.run.plan_preview import preview

    secrets = [*plan_secret_values(planned.plan), *secrets_of_elements(planned)]
    if planned.is_array:
        from worldsize.cli.run.array_options import report_elements

        report_elements(planned, secrets)
    show(*mask_values(preview(planned, request.environ), secrets))
    return 0


def _require_directories(request: SubmissionRequest, planned: PlannedJob) -> None:
    """A script that is submitted by hand makes no directory that others could make sooner, and executes, or hands to
    ranks, what lies in it. StorageError."""
    config, name = request.config, planned.plan.compute
    runs_dir = config.computes[name].own_runs_dir
    missing = [runs_dir] if runs_dir and not os.path.isdir(runs_dir) else []
    missing += filter(may_others_create, (envs_dir(config, config.computes[name]), data_directory(config, name)))
    for path in missing:
        what = "is not there, and a script that is submitted by hand does not make it: others could, sooner"
        mode = 711 if path == user_directory_in(os.path.dirname(path)) else 700
        raise StorageError(what, printable_text(path), f"mkdir -p -m {mode} {printable_text(path)}")


def _script(request: SubmissionRequest, planned: PlannedJob) -> str:
    """The batch script alone, so that it can be kept and submitted by hand."""
    job, plan = planned.job, planned.plan
    files = lambda: embedded_files(job, plan, request.config.home)  # noqa: E731
    return planned.compute.render(job, plan, planned.paths, files).preview
