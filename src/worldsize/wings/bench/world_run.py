"""The run of one world: submitted or found again, followed to its end, cancelled at the user's request or after a
timeout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from worldsize.cli.console import duration_text
from worldsize.cli.output import report
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.run.follow_signals import DetachRequest, FollowSignals
from worldsize.cli.runs.follow import state_reporter
from worldsize.cli.runs.waiting_line import WaitingLine
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import WorldsizeError
from worldsize.logs.text import without_colours
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.service.submission.submit import start
from worldsize.state.records import RunState, Status
from worldsize.wings.bench.worlds import World

INTERRUPTED = 130
"""The exit code after a Ctrl-C."""


class RunEnd(NamedTuple):
    """The end of the run of a world.

    run          None if it could not be submitted
    status       the last status that is known
    failure      a sentence; "" if it succeeded, and if it continues without this process
    interrupted  the exit code of this process, if the user has cancelled or left
    """

    world: World
    run: Run | None
    status: Status | None
    failure: str = ""
    interrupted: int | None = None


class WorldRun:
    """The run of one world. `timeout` is the number of seconds after which the run is cancelled."""

    def __init__(self, world: World, request: SubmissionRequest, timeout: float | None) -> None:
        self._world = world
        self._request = request
        self._timeout = timeout
        self._signals = FollowSignals()

    def follow(self, former: Run | None, began: Callable[[Run], None]) -> RunEnd:
        """Wait for the end of the world's run, which is `former` or a new one that is submitted now, and print on
        stderr why it failed. Return a RunEnd. `began` is called with a new run before it is submitted to its compute.
        """
        try:
            run = former or self._submit(began)
        except WorldsizeError as error:
            self._signals.release()
            code = INTERRUPTED if self._signals.has_cancelled else None
            return RunEnd(self._world, None, None, " ".join(str(error).split()), code)
        self._signals.attach(run)
        line = WaitingLine(f"{self._world}: run {run.id}")
        try:
            self._signals.follow()
            status = run.overall(run.follow(line.poll, self._timeout, state_reporter(run), line.take))
            line.clear()
            end = self._end_of(run, status)
        except DetachRequest as detached:
            line.clear()
            report("", f"detached: {run.id} continues; the same command with --to resumes")
            return RunEnd(self._world, run, None, "", detached.code)
        finally:
            line.clear()
            self._signals.release()
        return end._replace(interrupted=INTERRUPTED) if self._signals.has_cancelled else end

    def _submit(self, began: Callable[[Run], None]) -> Run:
        made: list[Run] = []

        def submitting(paths: RunPaths) -> None:
            run = Run(paths, self._request.environ)
            made.append(run)
            self._signals.attach(run)
            began(run)

        told = ProgressLine() if sys.stderr.isatty() else _Quiet()
        try:
            start(self._request, told, submitting)
        finally:
            told.clear()
        return made[0]

    def _end_of(self, run: Run, status: Status) -> RunEnd:
        if not status.final:
            report(f"{self._world}: no end within {duration_text(self._timeout or 0.0)}: cancelling {run.id}")
            run.cancel()
            run.follow()
            return RunEnd(self._world, run, status, f"it did not end within {duration_text(self._timeout or 0.0)}")
        if status.state == RunState.SUCCEEDED:
            return RunEnd(self._world, run, status)
        if status.state == RunState.CANCELLED:
            code = status.exit_code or INTERRUPTED
            return RunEnd(self._world, run, status, "it was cancelled", code)
        from worldsize.service.runs.failure_screen import failure_data, run_failure_lines

        report(f"{self._world}: run {run.id} failed", *run_failure_lines(run, status))
        data = failure_data(run.paths, run.plan, status) or {}
        return RunEnd(self._world, run, status, failure_sentence(status, data))


class _Quiet(NoticePrinter):
    """A printer that drops notices. The notices of all worlds are the same, and were reported when the worlds were
    planned."""

    def show_notice(self, text: str) -> None:
        pass


def failure_sentence(status: Status, data: Mapping[str, Any]) -> str:
    """Return a sentence that states why a benchmark's run has failed, from its final `status`. If a rank has ended with
    code 1 and no exception, as by `sys.exit(text)`, add its last line. `data` is the data of the failure screen, in
    which secrets are masked."""
    words = status.message or (status.failure.message if status.failure else "")
    lines = data.get("last_lines", ()) if data.get("code") == 1 and not data["exception"] else ()
    last = next((line for line in reversed(lines) if line.strip()), "")
    text = " ".join(f"{words}; last line: {without_colours(last)}".split() if last else words.split())
    return text[:300] or str(status.reason or status.state)
