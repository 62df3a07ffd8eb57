"""The command `report`, which writes one HTML page of a run, to keep or to send."""

from __future__ import annotations

import argparse
import os

from worldsize.cli.console import add_run_argument, current_directory, find_runs, parse_count
from worldsize.cli.output import show, show_bytes
from worldsize.common.atomic_files import read_if_possible, storage_error, write_bytes
from worldsize.common.numbers import size_text
from worldsize.errors import UsageError
from worldsize.service.runs.run import Run
from worldsize.state.records import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from worldsize.service.runs.array import RunArray

_EXAMPLES = """examples:
  worldsize report                            the latest run, as RUN.html here
  worldsize report 417k --to /tmp/417k.html   somewhere else
  worldsize report 417k --to - | ssh web 'cat > 417k.html'"""

_LOG_LINES = 200
_MARK = b'<meta name="generator" content="worldsize">'
_BEGINNING = 200
"""The number of bytes at the beginning of a page that are searched for the mark."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="a run or an array; else the latest that was started in this directory")
    parser.add_argument("--to", metavar="FILE", help="the page; - for stdout; RUN.html when left out")
    parser.add_argument(
        "--log-lines", metavar="N", type=parse_count, default=_LOG_LINES, help="the last lines of each log (200)"
    )
    parser.add_argument(
        "--environment",
        action="store_true",
        help="all variables of the submitter (masked), not only those of libraries",
    )
    parser.add_argument("--force", action="store_true", help="replace FILE even if it is not a page")
    parser.set_defaults(act=report)


def report(options: argparse.Namespace) -> int:
    runs = find_runs(options.run)
    path = options.to or os.path.join(current_directory(), runs.id + ".html")
    if path != "-" and not options.force:
        refuse_other_file(path)
    page = make_report(runs, runs.statuses(), options.log_lines, options.environment)
    if path == "-":
        show_bytes(page)
        return 0
    write_page(path, page)
    show(f"{path}: {size_text(len(page))}")
    return 0


def make_report(
    runs: Run | RunArray, statuses: Sequence[Status], log_lines: int, every_variable: bool = False
) -> bytes:
    """Return the HTML report page of a run or an array, as bytes, with the last `log_lines` lines of each log. Raise
    UsageError if the run is another user's and contains links that lead out of it."""
    from worldsize.wings.report.links import refuse_links_out

    if not runs.is_own:
        refuse_links_out(runs.directory)
    if isinstance(runs, Run):
        from worldsize.wings.report.facts import read_facts
        from worldsize.wings.report.page import run_page

        return run_page(read_facts(runs, statuses[0], log_lines, every_variable))
    from worldsize.wings.report.array_page import array_page

    return array_page(runs, statuses)


def refuse_other_file(path: str) -> None:
    """Raise UsageError if `path` exists and is not a report page that worldsize has written."""
    if not os.path.lexists(path):
        return
    if not os.path.isfile(path) or _MARK not in read_if_possible(path, _BEGINNING):
        raise UsageError(
            "the file exists, and worldsize report has not written it", path, "name another file, or add --force"
        )


def write_page(path: str, page: bytes) -> None:
    """Write the report page `page` to the file `path`, completely or not at all. An existing file is replaced. Raise
    StorageError if the file cannot be written."""
    try:
        write_bytes(path, page)
    except OSError as error:
        raise storage_error(error, path) from None
