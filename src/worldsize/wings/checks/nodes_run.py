"""A check that runs on nodes: its submission, the wait for its end, and its results."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from worldsize.cli.check_results import CheckResults
from worldsize.cli.console import duration_text
from worldsize.cli.output import report, state_text
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.run.follow_signals import DetachRequest, FollowSignals
from worldsize.cli.runs.follow import state_reporter
from worldsize.cli.runs.waiting_line import WaitingLine
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.service.submission.submit import start
from worldsize.state.check_rows import CheckRow
from worldsize.state.records import RunState, Status
from worldsize.wings.checks.agent.node_context import FULL
from worldsize.wings.checks.agent.record import read_check_record
from worldsize.wings.checks.agent.selection import row_ids
from worldsize.wings.checks.asked import asked_of
from worldsize.wings.checks.check_job import check_job
from worldsize.wings.checks.script_rows import facts_of_script, script_rows

_CANCELLED = 130
_TIMED_OUT = 124


class CheckFailed(Exception):
    """The error that the run of a node check itself failed. The reason has already been printed. `code` is the exit
    code of this process."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run_check(
    request: SubmissionRequest, planned: PlannedJob, ids: Sequence[str], timeout: float | None
) -> CheckResults:
    """Check the job's script on this machine, submit the node check and wait for its end. Return the CheckResults with
    the rows whose ids are in `ids`; if they name only rows about the script, submit nothing. Raise CheckFailed, and the
    errors of a submission."""
    about = (planned.plan, planned.job, planned.facts, request.config.computes[planned.plan.compute])
    rows = tuple(row for row in script_rows(*about) if row.id in ids)
    if not any(name in ids for name in row_ids()):
        return CheckResults(None, 0.0, (), rows)
    found = _run_on_nodes(check_request(request, planned, ids), timeout)
    return found._replace(rows=(*rows, *found.rows))


def check_request(request: SubmissionRequest, planned: PlannedJob, ids: Sequence[str]) -> SubmissionRequest:
    """Return the submission request of the run that checks the nodes of the planned job, with the requirements for the
    nodes, for the rows in `ids`."""
    settings = request.config.computes[planned.plan.compute]
    script = facts_of_script(planned.plan, planned.job, planned.facts, settings)
    asked = asked_of(planned.plan, request, planned.job, planned.facts, script)
    check = {"mode": FULL, "only": [name for name in row_ids() if name in ids], "asked": asked}
    return request._replace(job=check_job(planned.job, planned.plan, settings), check=check)


def _run_on_nodes(request: SubmissionRequest, timeout: float | None) -> CheckResults:
    """Submit the run of the node check, wait for its end, and return the CheckResults from the record that its head has
    written. Raise CheckFailed if the run failed or has no record."""
    signals = FollowSignals()

    def submitting(paths: RunPaths) -> None:
        signals.attach(Run(paths, request.environ))

    told = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        paths = start(request, told, submitting)
    finally:
        told.clear()
    run = Run(paths, request.environ)
    status = _follow(run, signals, timeout)
    record = read_check_record(run.paths)
    if status.state != RunState.SUCCEEDED or record is None:
        raise CheckFailed(_report_failure(run, status, record.rows if record else ()))
    return CheckResults(run.id, record.seconds, record.hosts, record.rows)


def _follow(run: Run, signals: FollowSignals, timeout: float | None) -> Status:
    """Wait for the end of the node check's run and return its status. Raise CheckFailed if the timeout in seconds
    expires, in which case the run is cancelled, and if the user detaches."""
    line = WaitingLine(f"check {run.id}")
    try:
        signals.follow()
        status = run.overall(run.follow(line.poll, timeout, state_reporter(run), line.take))
        if status.final:
            return status
        line.clear()
        report(f"no answer within {duration_text(timeout or 0.0)}: cancelling {run.id}")
        run.cancel()
        run.follow()
        raise CheckFailed(_TIMED_OUT)
    except DetachRequest as detached:
        line.clear()
        report("", f"detached: {run.id} continues")
        raise CheckFailed(detached.code) from None
    finally:
        line.clear()


def _report_failure(run: Run, status: Status, rows: Sequence[CheckRow]) -> int:
    """Print why the run of a node check failed, and the bad rows that it had found by then. Return the exit code of
    this process."""
    from worldsize.service.runs.failure_screen import run_failure_lines

    report(f"check {run.id} {state_text(status.state, sys.stderr)}", *run_failure_lines(run, status))
    for row in rows:
        if row.verdict == "bad":
            report(f"bad: {row.id}: {': '.join(word for word in (row.node, row.what, row.value) if word)}")
    if status.state == RunState.SUCCEEDED:
        report("its nodes have written no record: they run another version of worldsize, or do not see its files")
    return _CANCELLED if status.state == RunState.CANCELLED and status.exit_code == _CANCELLED else 1
