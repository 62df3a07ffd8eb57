"""The command `check`, which checks the nodes of a job, and its script, before it runs."""

from __future__ import annotations

import argparse
import os
import sys
import time

from worldsize.cli.console import (
    add_output_option,
    add_set_option,
    complete_computes,
    complete_job_files,
    current_directory,
    load_current_config,
    parse_seconds,
    set_completer,
)
from worldsize.cli.output import report_message, show, show_json
from worldsize.common.named_tuple import Any

_EXAMPLES = """examples:
  worldsize check job.yml                      the nodes that the job would get, and its script
  worldsize check train.py -w 2x4              a script without a job file
  worldsize check --compute lab -w 4x1         only nodes
  worldsize check job.yml --only gpu,network   only these rows, by id or by the part before the dot
  worldsize check job.yml --exclude-bad        then submit the job, without the bad nodes

The exit code is 0 if nothing is bad, 1 if something is, 2 for a mistake in the job or the words;
with --exclude-bad it is 0 once the job is submitted."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "worldsize check [options] [JOB.YML | SCRIPT.PY | -- COMMAND …]"
    job = parser.add_argument("job", nargs="?", metavar="JOB.YML", help="the job file, or a script; none: only nodes")
    set_completer(job, complete_job_files)
    parser.add_argument("--code", metavar="DIR", help="with a command after --: its code directory (default: here)")
    parser.add_argument(
        "-w", "--world", metavar="NxM", help="N nodes × M processes per node (default without a job: 2x1; here 1x1)"
    )
    add_set_option(parser)
    compute = parser.add_argument("--compute", metavar="NAME", help="where (default: from the job or configuration)")
    set_completer(compute, complete_computes)
    for option, meaning in (("--only", "check only this"), ("--skip", "skip this check")):
        rows = parser.add_argument(
            option, action="append", default=[], metavar="ROW", help=f"{meaning}; may be repeated"
        )
        set_completer(rows, complete_rows)
    parser.add_argument(
        "--timeout",
        type=parse_seconds,
        metavar="SECONDS",
        help="cancel the check after this time, the time in the queue included; code 124",
    )
    parser.add_argument(
        "--exclude-bad", action="store_true", help="then submit the job at the same size without the bad nodes"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the run that would check the nodes; start nothing"
    )
    add_output_option(parser)
    parser.set_defaults(act=check)


def complete_rows(**_: Any) -> list[str]:
    from worldsize.wings.checks.selection import words

    return words()


def check(options: argparse.Namespace) -> int:
    """Run the command `worldsize check`: check the job's nodes and script, and print the results. With --exclude-bad,
    also submit the job without the bad nodes; with --dry-run, only print the run. Return the exit code."""
    from worldsize.cli.check_results import exit_code, result_lines, show_results
    from worldsize.service.request import SubmissionRequest
    from worldsize.service.submission.findings import format_notice
    from worldsize.service.submission.plan_job import plan_job
    from worldsize.wings.checks.checked_job import checked_job
    from worldsize.wings.checks.nodes_run import CheckFailed, check_request, run_check
    from worldsize.wings.checks.selection import selected_ids

    ids = selected_ids(options.only, options.skip)
    config = load_current_config()
    job, warnings, origins = checked_job(options, config)
    for warning in warnings:
        report_message("warning: " + warning)
    request = SubmissionRequest(
        job, config, options.compute, os.environ, current_directory(), origins, sys.argv, check={}
    )
    planned = plan_job(request, time.time())
    if options.exclude_bad:
        from worldsize.wings.checks.exclusion import require_exclusion

        require_exclusion(planned.compute, config.computes[planned.plan.compute])
    if options.dry_run:
        from worldsize.cli.run.dry_run import dry_run

        return dry_run(check_request(request, planned, ids), options.output == "json")
    for notice in planned.notices:
        report_message("notice: " + format_notice(notice))
    try:
        found = run_check(request, planned, ids, options.timeout)
    except CheckFailed as failed:
        return failed.code
    if not options.exclude_bad:
        return show_results(found, options.output)
    submitted = _submit_job(request, planned, found)
    if options.output == "json":
        show_json({**found.data(), "submitted": submitted})
    else:
        show(*result_lines(found), *([submitted] if submitted else []))
    return 0 if submitted else exit_code(found)


def _submit_job(request: Any, planned: Any, found: Any) -> str | None:
    """Submit the job on nodes that the node check (`found`) did not judge bad, and return the id of its run. If
    something is bad that does not belong to a node, print that, submit nothing and return None."""
    from worldsize.cli.progress_line import NoticePrinter
    from worldsize.service.submission.submit import start
    from worldsize.wings.checks.exclusion import without_nodes

    everywhere = found.bad_everywhere()
    if everywhere:
        report_message(f"not submitted: {', '.join(everywhere)} would be bad on other nodes as well")
        return None
    settings = request.config.computes[planned.plan.compute]
    job = without_nodes(request.job, found.bad_nodes(), planned.compute, settings)
    paths = start(request._replace(job=job, check=None), NoticePrinter())
    return paths.run_id
