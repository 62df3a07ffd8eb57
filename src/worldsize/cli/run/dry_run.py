"""The option --dry-run: it shows exactly what would be started, and creates nothing."""

from __future__ import annotations

import os
import time

from worldsize.cli.output import report, show, show_document, show_json
from worldsize.cli.progress_line import NoticePrinter
from worldsize.cli.table import table
from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any
from worldsize.errors import PreflightError, StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.registry import find_module
from worldsize.service.environments.location import envs_dir
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.submission.findings import format_notice
from worldsize.service.submission.inputs import data_directory
from worldsize.service.submission.plan_job import plan_at, plan_job, secrets_of_elements
from worldsize.service.submission.preflight import azure_notices
from worldsize.service.submission.run_directory import embedded_files
from worldsize.store.runs import new_run_id
from worldsize.trust.directories import may_others_create, user_directory_in
from worldsize.trust.secrets import mask_text, mask_values


def dry_run(request: SubmissionRequest, as_json: bool = False) -> int:
    """Show what `run` or `submit` would submit for `request`, as text or as JSON, and submit nothing. For an array,
    show the first run, and the varying inputs of the others. Return 0.

    The output begins with the meaning of each key of the job file on this compute, if a key does not keep its meaning.
    This table is also shown if there are problems. Raise PreflightError, UsageError, PlanError, or StorageError.
    """
    created = time.time()
    try:
        planned = plan_job(request._replace(dry=True), created)
    except PreflightError as error:
        rows = _key_rows(request, None, error.findings)
        if as_json:
            problems = [
                {"where": each.where, "what": mask_text(each.what), "hint": each.hint and mask_text(each.hint)}
                for each in error.findings
            ]
            show_json({"keys": [row._asdict() for row in rows], "problems": problems})
        elif any(row.verdict not in ("kept", "impossible") for row in rows):
            show(*_key_table(rows), "")
        raise
    rows = _key_rows(request, planned)
    as_said = planned.job._replace(compute=request.job.compute)
    told = azure_notices(request, as_said) if rows else []  # the table shows the same
    notices = [notice for notice in planned.notices if notice not in told]
    for notice in notices:
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
    secrets = [*plan_secret_values(planned.plan), *secrets_of_elements(planned)]
    lines = _key_table(rows) if any(row.verdict != "kept" for row in rows) else []
    if as_json:
        text = _script(request, planned) if scripted else "\n".join(_preview(request, planned, secrets)) + "\n"
        _show_json(planned, rows, list(map(format_notice, notices)), text, secrets)
    elif scripted:
        report(*mask_values(lines, secrets))
        show_document(_script(request, planned))
    else:
        if planned.is_array:
            from worldsize.cli.run.array_options import report_elements

            report_elements(planned, secrets)
        show(*mask_values([*lines, *([""] if lines else []), *_preview(request, planned, secrets)], secrets))
    return 0


def _preview(request: SubmissionRequest, planned: PlannedJob, secrets: list[str]) -> list[str]:
    from worldsize.cli.run.plan_preview import preview

    return list(mask_values(preview(planned, request.environ), secrets))


def _key_rows(request: SubmissionRequest, planned: PlannedJob | None, problems: Any = ()) -> list[Any]:
    """Return rows with the meaning of each key of the job file on the requested compute, for a dry run; none for a
    batch script, and none if the wing that determines the meanings is not installed."""
    is_file = request.origins.lines and request.job.batch_script is None
    module = find_module("wings.azure.key_table") if is_file else None
    return list(module.key_rows(request, planned, problems)) if module is not None else []


def _key_table(rows: list[Any]) -> list[str]:
    cells = [[row.key, row.verdict, f"{row.meaning} → {row.fix}" if row.fix else row.meaning] for row in rows]
    return ["# " + line for line in table(cells, ["KEY", "HERE", "MEANS"])]


def _show_json(planned: PlannedJob, rows: list[Any], notices: list[str], text: str, secrets: list[str]) -> None:
    plan = planned.plan
    value = {
        "name": plan.name,
        "compute": plan.compute,
        "nodes": len(plan.nodes),
        "world_size": plan.world_size,
        "keys": [row._asdict() for row in rows],
        "notices": notices,
        "submission": text,
    }
    show_json(mask_values(value, secrets))


def _require_directories(request: SubmissionRequest, planned: PlannedJob) -> None:
    """Check that the directories exist that a batch script which is submitted by hand does not create, because other
    users could create them first: the script executes the files in them, or passes them to ranks. Raise StorageError if
    one is missing."""
    config, name = request.config, planned.plan.compute
    runs_dir = config.computes[name].own_runs_dir
    missing = [runs_dir] if runs_dir and not os.path.isdir(runs_dir) else []
    missing += filter(may_others_create, (envs_dir(config, config.computes[name]), data_directory(config, name)))
    for path in missing:
        what = "does not exist, and a script submitted by hand does not create it: another user could create it first"
        mode = 711 if path == user_directory_in(os.path.dirname(path)) else 700
        raise StorageError(what, printable_text(path), f"mkdir -p -m {mode} {printable_text(path)}")


def _script(request: SubmissionRequest, planned: PlannedJob) -> str:
    """Return the text of the batch script of a planned run, so that the user can keep it and submit it by hand."""
    job, plan = planned.job, planned.plan
    files = lambda: embedded_files(job, plan, request.config.home)  # noqa: E731
    return planned.compute.render(job, plan, planned.paths, files).preview
