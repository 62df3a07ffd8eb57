"""status, wait, cancel, requeue: runs that exist."""

from __future__ import annotations

import argparse
import os
import sys
import time

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    duration_text,
    find_run,
    find_runs,
    load_current_config,
    nodes_and_ranks_text,
    parse_seconds,
    rehearsal_text,
    request_cancel,
    state_text,
)
from worldsize.cli.output import lines_of, report, show, show_json
from worldsize.common.atomic_files import printable_text
from worldsize.errors import NotFound
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMED_OUT = 124

_EXPLAINED_WITHIN = 5.0
_ACCOUNTING_LAG = 1.0

_EXAMPLES = {
    "status": """examples:
  worldsize status                            the latest run
  worldsize status 417k -o json""",
    "wait": """examples:
  worldsize wait && echo trained              the exit code is the run's
  worldsize wait 417k --timeout 3600          124 when the time is over; the run goes on""",
    "cancel": """examples:
  worldsize cancel                            the latest run: TERM, its grace, KILL
  worldsize cancel 417k --now                 KILL at once""",
    "requeue": """examples:
  worldsize requeue 417k && worldsize logs -f 417k
  worldsize rerun 417k                        a new run instead, of the same job and code""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    add_run_argument(parser)
    if verb == "wait":
        parser.add_argument(
            "--timeout", metavar="SECONDS", type=parse_seconds, help="give up after so long, with code 124"
        )
    if verb == "cancel":
        parser.add_argument("--now", action="store_true", help="without grace")
    if verb in ("status", "wait"):
        add_output_option(parser)
    parser.set_defaults(act={"status": show_status, "wait": wait, "cancel": cancel, "requeue": run_requeue}[verb])


def show_status(options: argparse.Namespace) -> int:
    run = find_runs(options.run)
    if not isinstance(run, Run):
        from worldsize.cli.runs.array_status import show_array_status

        return show_array_status(run, options)
    now = run.look()
    if not os.path.isdir(run.directory):
        raise NotFound(f"its directory was deleted: {run.directory}", f"run {run.id}")
    if options.output == "json":
        show_json(status_data(run, now))
        return 0
    show(*_status_lines(run, now))
    return 0


def status_data(run: Run, now: Status, patience: float = 0.0) -> dict[str, Any]:
    """{id, name, state, reason, exit_code, …, threads, binding, message, directory, failure, usage, waiting, warnings};
    `patience` is for the usage of a run that has just ended."""
    from worldsize.cli.runs.wait_and_usage import waiting_data
    from worldsize.cli.threads import threads_of
    from worldsize.service.runs.compute_reports import usage, wait_explanation
    from worldsize.service.runs.failure_screen import failure_data
    from worldsize.state.result import summary

    data: dict[str, Any] = {"id": run.id, "state": now.state, "reason": now.reason, "exit_code": now.exit_code}
    if run.has_plan():
        data = summary(run.plan, now)
        data["threads"] = threads_of(run)
        data["binding"] = run.plan.bind
        data["failure"] = failure_data(run.paths, run.plan, now)
        used = usage(run, now, patience)
        data["usage"] = used._asdict() if used else None
        data["waiting"] = waiting_data(wait_explanation(run, now, _EXPLAINED_WITHIN))
    data["message"] = now.message
    data["warnings"] = [warning._asdict() for warning in now.warnings]
    data["directory"] = run.directory
    return data


def _status_lines(run: Run, now: Status) -> list[str]:
    from worldsize.cli.runs.failure import failure_lines
    from worldsize.cli.runs.wait_and_usage import usage_text, waiting_lines, warning_lines, warnings_text
    from worldsize.cli.threads import threads_of, threads_text
    from worldsize.service.runs.compute_reports import usage, wait_explanation

    reason = f" ({now.reason})" if now.reason else ""
    lines = [f"{run.id}  {state_text(now.state, sys.stdout)}{reason}{warnings_text(now)}"]
    lines += warning_lines(now)
    if run.has_plan():
        plan = run.plan
        told = nodes_and_ranks_text(len(plan.nodes), plan.world_size)
        lines.append(f"{printable_text(plan.name)}: {told} on {plan.compute}{rehearsal_text(plan)}")
        if plan.array:
            from worldsize.cli.runs.array_status import array_element_text

            lines.append(array_element_text(run))
        lines.append(
            "{}; {}".format(threads_text(threads_of(run)), "CPUs not bound" if plan.bind == "none" else "CPUs bound")
        )
        lines.append(f"made {duration_text(time.time() - plan.created)} ago{_took_text(now)}")
        lines += ["used " + text for text in [usage_text(usage(run, now, 0.0))] if text]
    lines.append(run.directory)
    why = wait_explanation(run, now, _EXPLAINED_WITHIN)
    words = waiting_lines(why) if why else failure_lines(run, now)
    return [*lines, "", *words] if words else lines


def _took_text(now: Status) -> str:
    if now.started is None:
        return ""
    return f", ran for {duration_text((now.ended or time.time()) - now.started)}"


def wait(options: argparse.Namespace) -> int:
    run = find_runs(options.run)
    if not isinstance(run, Run):
        from worldsize.cli.runs.array_status import wait as wait_for_all

        return wait_for_all(run, options)
    from worldsize.cli.runs.follow import state_reporter
    from worldsize.cli.runs.wait_and_usage import warnings_text

    now = run.follow(lambda: False, options.timeout, state_reporter(run))
    if options.output == "json":
        show_json(status_data(run, now, _ACCOUNTING_LAG))
    else:
        shown = rehearsal_text(run.plan) if run.has_plan() else ""
        reason = f": {now.reason}" if now.state == RunState.LOST and now.reason else ""
        why = lines_of(now.message) if reason else []
        report(f"{run.id} is {now.state}{reason}{shown}{warnings_text(now)}", *why)
    if not now.final:
        return TIMED_OUT
    return now.exit_code or 0


def cancel(options: argparse.Namespace) -> int:
    try:
        run = find_runs(options.run)
    except NotFound:
        if _end_deleted(options.run):
            return 0
        raise
    if not isinstance(run, Run):
        from worldsize.cli.runs.array_status import cancel as cancel_all

        return cancel_all(run, options)
    before = run.look()
    if before.final:
        report(f"{run.id} is {before.state} already{_ended_text(run.end_remains())}")
        return 0
    request_cancel(run.id, lambda: run.cancel(options.now))
    return 0


def run_requeue(options: argparse.Namespace) -> int:
    from worldsize.service.runs.requeue import requeue

    run = find_run(options.run)
    report(f"{run.id} is back in the queue, as attempt {requeue(run)}")
    return 0


def _end_deleted(run_id: str | None) -> bool:
    """End what is left of a run of which nothing but its id is known any more; whether there was anything."""
    from worldsize.store.find import run_paths
    from worldsize.store.runs import is_run_id

    if run_id is None or not is_run_id(run_id):
        return False
    found = Run(run_paths(load_current_config().home, run_id), os.environ).end_deleted()
    if found:
        report(f"the directory of {run_id} was deleted{_ended_text(found)}")
    return found > 0


def _ended_text(found: int) -> str:
    if found == 0:
        return ""
    return "; ended {} left of it".format("1 process that was" if found == 1 else f"{found} processes that were")
