"""Functions that follow a run, or an array, on a terminal: they show a run's log as it is written, one attempt after
the other, handle the keys that end or leave it, and show how it ended."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable

from worldsize.cli.console import count_text, duration_text, rehearsal_text, warnings_text
from worldsize.cli.output import (
    lines_of,
    report,
    show_error_log,
    show_json,
    show_log,
    state_text,
)
from worldsize.cli.run.follow_signals import DetachRequest, FollowSignals
from worldsize.cli.runs.notices import LogWithNotices
from worldsize.common.named_tuple import Protocol
from worldsize.compute.base import OUTPUTS
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import find_module
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.cli.runs.array import ArrayProgress
    from worldsize.service.runs.array import RunArray


_ACCOUNTING_LAG = 1.0
_ACCOUNTING_SHARE = 0.2
_MOST_COUNTED = 1000


def follow_to_end(
    runs: Run | RunArray, signals: FollowSignals, fold: str | None, quiet: bool = False, as_json: bool = False
) -> int:
    """Show the log or the progress of a run or an array until it has ended, then how it ended. Return the exit code of
    the first run that failed (0 if none did); if the user leaves before, the code of the detach request.

    With `as_json` the status is written to stdout as JSON, once the runs have ended or the user leaves; all else goes
    to stderr.
    """
    gc.freeze()  # imported modules stay, and need no collection
    gc.enable()
    progress = _make_progress(runs, fold, quiet, show_error_log if as_json else show_log)
    try:
        signals.follow()
        statuses = runs.follow(progress.poll, None, state_reporter(runs), progress.show_statuses)
        progress.finish()
        show_end(runs, statuses, progress)
        if as_json:
            _show_status(runs, statuses)
    except DetachRequest as detached:
        progress.finish_early()
        report("", f"detached: {runs.id} continues ({progress.hint})")
        if as_json:
            _show_status(runs, runs.statuses())
        return detached.code
    except OSError as error:
        why = "the output's reader has ended: " if isinstance(error, BrokenPipeError) else ""
        report(f"{why}{runs.id} continues ({progress.hint})")
        raise
    return runs.overall(statuses).exit_code or 0


def _show_status(runs: Run | RunArray, statuses: list[Status]) -> None:
    from worldsize.cli.runs.status import status_data

    show_json(status_data(runs, statuses))


def _make_progress(
    runs: Run | RunArray, fold: str | None, quiet: bool, show: Callable[[str], None]
) -> RunProgress | ArrayProgress:
    if isinstance(runs, Run):
        return RunProgress(runs, fold, quiet, show)
    from worldsize.cli.runs.array import ArrayProgress

    if runs.array.search:
        from worldsize.service.providers import find_provider

        progress = find_provider("search_progress")
        if progress:
            shown: ArrayProgress = progress.SearchProgress(runs, quiet)
            return shown
    return ArrayProgress(runs, quiet)


def state_reporter(runs: Run | RunArray) -> Callable[[Status], None]:
    """Return a function that reports the status of a waited-for run or array on stderr: its state, and the message why
    nothing happens."""

    def tell(status: Status) -> None:
        first, *more = lines_of(status.message)
        report(f"{runs.noun} {runs.id} {state_text(status.state, sys.stderr)}: {first}", *more)

    return tell


def show_end(runs: Run | RunArray, statuses: list[Status], progress: RunProgress | ArrayProgress) -> None:
    status = runs.overall(statuses)
    took = f" after {duration_text(status.ended - status.started)}" if status.started and status.ended else ""
    used = _usage_text(runs, statuses)
    told = "; ".join([words for words in (progress.reason(statuses), used) if words])
    shown = state_text(status.state, sys.stderr) + took + (": " if told else "") + told
    report(f"{runs.noun} {runs.id} {shown}{rehearsal_text(runs.common)}{warnings_text(status)}")
    report(*progress.outcome(statuses))


def _usage_text(runs: Run | RunArray, statuses: list[Status]) -> str:
    """Return the resources that an ended run or array used, such as GPU-hours, as text; "" if its compute does not
    count them."""
    status = runs.overall(statuses)
    took = (status.ended or 0.0) - (status.started or 0.0)
    used = runs.usage(statuses, min(_ACCOUNTING_SHARE * took * len(statuses), _ACCOUNTING_LAG))
    if used is None:
        return ""
    from worldsize.cli.runs.wait_and_usage import usage_text

    return usage_text(used)


class LogReader(Protocol):
    def poll(self) -> bool:
        """Show the log lines that ranks have written since the last call. Return whether there were any."""

    def finish(self) -> None:
        """Show the log lines that have not been shown yet, once the run has ended."""


class AttemptReader:
    """A reader of the run's latest attempt, which changes when a new attempt begins. `make` returns the reader of one
    attempt."""

    def __init__(self, run: Run, make: Callable[[RunPaths], LogReader]) -> None:
        self._run = run
        self._make = make
        self._attempt = run.paths.attempt
        self._reader = make(run.paths)

    def poll(self) -> bool:
        self._open_new_attempt()
        return self._reader.poll()

    def show_statuses(self, statuses: list[Status]) -> bool:
        """Ignore the statuses of the run, and return False, so that following its log continues."""
        return False

    def finish(self) -> None:
        self._open_new_attempt()
        self._reader.finish()

    def _open_new_attempt(self) -> None:
        """Switch to the log of the run's latest attempt, if one has begun since the last call. Show the rest of the
        former attempt's log first. The new attempt may have ended already."""
        if self._run.paths.attempt != self._attempt:
            self._reader.finish()
            self._attempt = self._run.paths.attempt
            report(f"run {self._run.id} was started again: attempt {self._attempt}")
            self._reader = self._make(self._run.paths)


class RunProgress(AttemptReader):
    """The log of a run, and the text at its end.

    hint     the command that follows the run again
    reason   how the run ended, in a few words after its state
    outcome  lines about the end: why it failed, how well it used its nodes, where the outputs are
    finish_early  remove the transient line of a terminal, when the user leaves
    """

    def __init__(self, run: Run, fold: str | None, quiet: bool, show: Callable[[str], None] = show_log) -> None:
        from worldsize.logs.merged_log import LogFollower

        ranks: list[int] | None = [] if quiet else [0] if run.plan.data_parallel else None
        nodes, now = run.plan.nodes, time.monotonic

        def reader(paths: RunPaths) -> LogReader:
            log = LogWithNotices(paths, LogFollower(paths, nodes, ranks, fold, None, show, now))
            attach = find_module("wings.debugger.attach") if run.plan.debugger is not None else None
            return attach.LogWithDebugger(run, paths, log) if attach else log

        super().__init__(run, reader)
        self.hint = f"worldsize logs -f {run.id}"

    def finish_early(self) -> None:
        pass

    def reason(self, statuses: list[Status]) -> str:
        reason = statuses[0].reason
        return "" if reason in (None, "CANCELLED_BY_USER") else str(reason)

    def outcome(self, statuses: list[Status]) -> list[str]:
        run, status = self._run, statuses[0]
        if status.state != RunState.SUCCEEDED:
            from worldsize.service.runs.failure_screen import run_failure_lines

            lines = run_failure_lines(run, status)
            more = [*self._efficiency(status), *_working_directory_lines(run)]
            lines += ["", *more] if lines and more else more
        else:
            lines = [*self._efficiency(status), *_output_lines(run), *_working_directory_lines(run)]
        if not run.plan.rehearsal:
            return lines
        limits = find_module("wings.rehearsal.limits")
        return [*lines, *limits.limitation_lines(run.plan, run.paths)] if limits else lines

    def _efficiency(self, status: Status) -> list[str]:
        if not self._run.is_measured(status):
            return []
        from worldsize.service.runs.measurements import efficiency_lines

        return efficiency_lines(self._run, status)


def _output_lines(run: Run) -> list[str]:
    """Return a line that states where the run's output files are, or which command fetches them from a service; none if
    there are no outputs."""
    if run.offers(OUTPUTS):
        return [f"outputs: worldsize fetch {run.id} fetches them"]
    return [f"outputs: {run.paths.outputs}"] if _has_entries(run.paths.outputs) else []


def _working_directory_lines(run: Run) -> list[str]:
    """Return a line with the number of files that the run's command has written outside `./outputs`, which are easily
    overlooked because the run has its own copy of the code; none if there are no such files."""
    from worldsize.store.output_files import count_working_directory_files

    number = count_working_directory_files(run.paths, _MOST_COUNTED)
    if not number:
        return []
    text = f"more than {_MOST_COUNTED} files" if number > _MOST_COUNTED else count_text(number, "file")
    return [f"{text} in the working directory: worldsize outputs {run.id}"]


def _has_entries(directory: str) -> bool:
    try:
        return bool(os.listdir(directory))
    except OSError:
        return False
