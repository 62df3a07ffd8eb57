"""Follows a run on a terminal: its log as it comes, one attempt after the other, the keys that end or leave it, how
it ended."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable

from worldsize.cli.console import duration_text, rehearsal_text, state_text
from worldsize.cli.output import lines_of, report, report_from_handler, show_log
from worldsize.common.named_tuple import Protocol
from worldsize.errors import WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from worldsize.service.runs.array import RunArray


_ACCOUNTING_LAG = 1.0
_ACCOUNTING_SHARE = 0.2


class DetachRequest(Exception):
    """The user leaves; the run goes on. `code` is what we exit with."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.code = code


class FollowSignals:
    """Ctrl-C cancels, a second one at once; Ctrl-\\, a closing terminal and TERM leave the run running.

    As long as there is no run (`run` is None), each of them just ends us. Signals that were ignored when we were
    started (nohup, a background job) stay so.
    """

    def __init__(self) -> None:
        self.run: Run | RunArray | None = None
        self._cancels = 0
        self._left: int | None = None
        self._following = False
        self._set_handler(signal.SIGINT, self._cancel)
        for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            self._set_handler(number, self._detach)

    def _set_handler(self, number: int, act: object) -> None:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, act)  # type: ignore[arg-type]

    def _cancel(self, *_: object) -> None:
        if self.run is None:
            raise KeyboardInterrupt
        self._cancels += 1
        if self._cancels > 2:
            return
        again = " (Ctrl-C again: at once)" if self._cancels == 1 else " at once"
        report_from_handler("", f"cancelling {self.run.id}{again}")
        try:
            self.run.cancel(now=self._cancels == 2)
        except WorldsizeError as error:
            self._cancels -= 1  # the next Ctrl-C asks anew
            report_from_handler("", f"could not cancel {self.run.id}", *lines_of(f"worldsize: {error}"))

    def _detach(self, number: int, _: object) -> None:
        if self.run is None:
            raise SystemExit(128 + number)
        if self._left is None:
            self._left = 128 + number if number == signal.SIGTERM else 0
            if self._following:
                raise DetachRequest(self._left)

    def follow(self) -> None:
        """From now on leaving is raised as `DetachRequest`; at once when it was asked for before."""
        self._following = True
        if self._left is not None:
            raise DetachRequest(self._left)


def follow_to_end(run: Run, signals: FollowSignals, fold: str | None, quiet: bool = False) -> int:
    """Show the run's log until it ends, then how it ended; its exit code."""
    from worldsize.logs.merged_log import LogFollower

    gc.enable()
    ranks: list[int] | None = [] if quiet else [0] if run.plan.data_parallel else None
    nodes = run.plan.nodes
    follower = AttemptReader(run, lambda paths: LogFollower(paths, nodes, ranks, fold, None, show_log, time.monotonic))
    try:
        signals.follow()
        status = run.follow(follower.poll, tell=state_reporter(run))
        follower.finish()
        show_end(run, status)
    except DetachRequest as detached:
        report("", f"detached: {run.id} goes on (worldsize logs -f {run.id})")
        return detached.code
    except BrokenPipeError:
        report(f"nobody reads the output any more: {run.id} goes on (worldsize logs -f {run.id})")
        raise
    except OSError:
        report(f"{run.id} goes on (worldsize logs -f {run.id})")
        raise
    return status.exit_code or 0


def state_reporter(run: Run) -> Callable[[Status], None]:
    """Why nothing happens, on stderr."""

    def tell(status: Status) -> None:
        first, *more = lines_of(status.message)
        report(f"run {run.id} {state_text(status.state, sys.stderr)}: {first}", *more)

    return tell


def _has_entries(directory: str) -> bool:
    try:
        return bool(os.listdir(directory))
    except OSError:
        return False


def _usage_text(run: Run, status: Status) -> str:
    """What it used, where its compute counts that."""
    if "usage" not in run.compute.capabilities:
        return ""
    from worldsize.cli.runs.wait_and_usage import usage_text
    from worldsize.service.runs.compute_reports import usage

    took = (status.ended or 0.0) - (status.started or 0.0)
    return usage_text(usage(run, status, min(_ACCOUNTING_SHARE * took, _ACCOUNTING_LAG)))


def show_end(run: Run, status: Status) -> None:
    took = ""
    if status.started and status.ended:
        took = f" after {duration_text(status.ended - status.started)}"
    reason = "" if status.reason in (None, "CANCELLED_BY_USER") else f": {status.reason}"
    used = _usage_text(run, status)
    told = (reason + ("; " if reason else ": ") + used) if used else reason
    shown = state_text(status.state, sys.stderr)
    report(f"run {run.id} {shown}{took}{told}{rehearsal_text(run.plan)}{_warnings_text(status)}")
    if status.state == RunState.SUCCEEDED:
        if _has_entries(run.paths.outputs):
            report(f"outputs: {run.paths.outputs}")
    else:
        _show_failure(run, status)
    if run.plan.rehearsal:
        from worldsize.service.submission.rehearsal import limitation_lines

        report(*limitation_lines(run.plan, run.paths))


def _warnings_text(status: Status) -> str:
    if not status.warnings:
        return ""
    from worldsize.cli.runs.wait_and_usage import warnings_text

    return warnings_text(status)


def _show_failure(run: Run, status: Status) -> None:
    from worldsize.cli.runs.failure import failure_lines

    report(*failure_lines(run, status))


class LogReader(Protocol):
    def poll(self) -> bool:
        """Show what is new; whether there was something."""

    def finish(self) -> None:
        """Show the rest."""


class AttemptReader:
    """A reader of the run's latest attempt, whichever that is by then; `make` gives that of one attempt."""

    def __init__(self, run: Run, make: Callable[[RunPaths], LogReader]) -> None:
        self._run = run
        self._make = make
        self._attempt = run.paths.attempt
        self._reader = make(run.paths)

    def poll(self) -> bool:
        self._open_new_attempt()
        return self._reader.poll()

    def finish(self) -> None:
        self._open_new_attempt()
        self._reader.finish()

    def _open_new_attempt(self) -> None:
        """To an attempt that has begun since, and may have ended."""
        if self._run.paths.attempt != self._attempt:
            self._reader.finish()
            self._attempt = self._run.paths.attempt
            report(f"run {self._run.id} was started again: attempt {self._attempt}")
            self._reader = self._make(self._run.paths)
