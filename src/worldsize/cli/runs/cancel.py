"""The verb cancel: it ends a run, or the remains of one."""

from __future__ import annotations

import argparse
import os
import sys

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    find_runs,
    load_current_config,
    request_cancel,
)
from worldsize.cli.output import report, show_json
from worldsize.cli.runs.status import ended_text, status_data, view_of
from worldsize.errors import NotFound, UsageError
from worldsize.service.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray

_EXAMPLES = """examples:
  worldsize cancel 417k                       TERM, its grace, KILL
  worldsize cancel 417k --now                 KILL at once
  worldsize cancel                            the latest that was started in this directory; asks
  worldsize cancel -y                         the same, and does not ask"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument("--now", action="store_true", help="send KILL at once, without the grace")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask whether it is the right run")
    add_output_option(parser)
    parser.set_defaults(act=cancel)


def cancel(options: argparse.Namespace) -> int:
    if options.run is None and not options.yes and not sys.stdin.isatty():
        raise UsageError(
            "no run is named", "cancel", "a run's id, or -y for the latest that was started in this directory"
        )
    try:
        runs = find_runs(options.run, "cancel", asks=not options.yes)
    except NotFound:
        if _end_deleted(options.run):
            return 0
        raise
    before = runs.look()
    if before.final:
        report(f"{runs.id} is already {before.state}{view_of(runs).remains_text(runs.end_remains())}")
        _show_cancelled(runs, options)
        return 0
    request_cancel(runs.id, lambda: runs.ask_to_end(options.now))
    _show_cancelled(runs, options)
    return 0


def _show_cancelled(runs: Run | RunArray, options: argparse.Namespace) -> None:
    if options.output == "json":
        show_json(status_data(runs, runs.statuses()))


def _end_deleted(run_id: str | None) -> bool:
    """Terminate the remaining processes of a run whose directory was deleted, so that only its id is known. Return
    whether there were any."""
    from worldsize.store.find import run_paths
    from worldsize.store.runs import is_run_id

    if run_id is None or not is_run_id(run_id):
        return False
    found = Run(run_paths(load_current_config().home, run_id), os.environ).end_deleted()
    if found:
        report(f"the directory of {run_id} was deleted{ended_text(found)}")
    return found > 0
