"""The verb wait: it waits until a run has ended."""

from __future__ import annotations

import argparse

from worldsize.cli.console import add_output_option, add_run_argument, find_runs, parse_seconds
from worldsize.cli.output import report, show_json
from worldsize.cli.runs.follow import state_reporter
from worldsize.cli.runs.status import status_data, view_of

TIMED_OUT = 124
_ACCOUNTING_LAG = 1.0
_EXAMPLES = """examples:
  worldsize wait && echo trained              the exit code is the run's
  worldsize wait 417k --timeout 3600          124 after a timeout; the run continues"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=parse_seconds, help="stop waiting after this time, with code 124"
    )
    add_output_option(parser)
    parser.set_defaults(act=wait)


def wait(options: argparse.Namespace) -> int:
    runs = find_runs(options.run)
    statuses = runs.follow(timeout=options.timeout, tell=state_reporter(runs))
    now = runs.overall(statuses)
    if options.output == "json":
        show_json(status_data(runs, statuses, _ACCOUNTING_LAG))
    else:
        first, *more = view_of(runs).outcome(statuses)
        report(f"{runs.id} is {now.state}{first}", *more)
    if not now.final:
        return TIMED_OUT
    return now.exit_code or 0
