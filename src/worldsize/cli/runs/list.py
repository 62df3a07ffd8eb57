"""The verb list: the latest runs, or the elements of an array."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    duration_text,
    find_runs,
    load_current_config,
    parse_count,
    tags_text,
)
from worldsize.cli.output import report, show, show_json, show_json_text, state_text
from worldsize.cli.runs.run_filter import RunFilter, add_filter_options, filter_of
from worldsize.cli.runs.times import with_times
from worldsize.cli.table import table
from worldsize.common.atomic_files import printable_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.store.summaries import Summary

NEWEST = 20
_OFTEN_EMPTY = ("REASON", "EXPERIMENT", "TAGS")
_WHOLE = ("STATE", "SIZE", "AGE", "TOOK")
_OPTIONAL = ("EXPERIMENT", "TAGS", "TOOK", "COMPUTE", "SIZE", "REASON")
"""Columns that are left out on a narrow terminal, in this order."""


_EXAMPLES = """examples:
  worldsize list                              the newest 20
  worldsize list --all --state FAILED -o json
  worldsize list --experiment resnet --tag lr=0.1 --tag swept
  worldsize list --here --since 7d --name 'resnet*'
  worldsize list 417k                         the elements of an array, each with its inputs"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="only this run, or the elements of this array")
    parser.add_argument("-e", "--elements", action="store_true", help="each element of an array in a separate row")
    parser.add_argument("-a", "--all", action="store_true", help=f"every run, not the newest {NEWEST}")
    parser.add_argument(
        "-n", metavar="N", type=parse_count, default=NEWEST, dest="count", help=f"the newest N (default: {NEWEST})"
    )
    add_filter_options(parser)
    add_output_option(parser)
    parser.set_defaults(act=list_runs)


def list_runs(options: argparse.Namespace) -> int:
    wanted = filter_of(options)
    found = [each for each in _summaries(options, wanted) if wanted.fits(each)]
    if not options.all and options.run is None and not options.elements:
        found = found[: options.count]
    if options.output == "json":
        _show_json(found)
    elif found:
        show(*_colour_states(table(*_columns(found), whole=_WHOLE, optional=_OPTIONAL), found))
    elif wanted.words:
        report(f"no run is {wanted.words}")
    elif options.count:
        report("no runs yet: worldsize run -w 1x2 -- python train.py")
    return 0


def _show_json(found: list[Summary]) -> None:
    import msgspec

    rows = [with_times(row) for row in msgspec.to_builtins(found)]
    try:
        show_json_text(msgspec.json.format(msgspec.json.encode(rows)).decode())
    except UnicodeEncodeError:  # such as the name of a file that is not UTF-8
        show_json(rows)


def _summaries(options: argparse.Namespace, wanted: RunFilter) -> list[Summary]:
    from worldsize.service.runs.summaries import element_summaries, live_summaries, with_element_summaries
    from worldsize.store.find import list_ids
    from worldsize.store.summaries import summaries

    if options.run is not None:
        return element_summaries(find_runs(options.run))
    home = load_current_config().home
    ids = wanted.ids if wanted.ids is not None else list_ids(home, _most(options, wanted))
    found = summaries(home, ids, lambda paths: live_summaries(paths, os.environ))
    return list(with_element_summaries(found, home, os.environ)) if options.elements else found


def _most(options: argparse.Namespace, wanted: RunFilter) -> int | None:
    return None if options.all or wanted.words else options.count


def _colour_states(lines: list[str], found: list[Summary]) -> list[str]:
    if not sys.stdout.isatty():
        return lines
    head, *lines = lines
    at = head.index("STATE")
    painted = [
        line[:at] + line[at:].replace(summary.state, state_text(summary.state, sys.stdout), 1)
        for line, summary in zip(lines, found, strict=True)
    ]
    return [head, *painted]


def _columns(found: Sequence[Summary]) -> tuple[list[list[str]], list[str]]:
    """Return the rows of the table of runs that `list` shows, and its headers. Columns that are often empty (REASON,
    EXPERIMENT, TAGS) are included only if a row has a value."""
    rows = [_cells(summary) for summary in found]
    headers = [header for header in rows[0] if header not in _OFTEN_EMPTY or any(row[header] for row in rows)]
    return [[row[header] for header in headers] for row in rows], headers


def _cells(summary: Summary) -> dict[str, str]:
    """Return the row of one run in the table that `list` shows, as a mapping from header to text."""
    now = time.time()
    size = f"{summary.nodes}x{summary.ranks // max(summary.nodes, 1)}"
    name, reason = summary.name, summary.reason or ""
    if summary.states:
        size = f"{sum(summary.states.values())} of {size}"
        reason = ", ".join(f"{number} {state}" for state, number in summary.states.items())
    if summary.inputs:
        name = " ".join("{}={}".format(*item) for item in summary.inputs.items())
    return {
        "RUN": summary.id,
        "NAME": printable_text(name),
        "STATE": summary.state,
        "REASON": reason,
        "COMPUTE": summary.compute + (" (rehearsal)" if summary.virtual_gpus else ""),
        "SIZE": size,
        "AGE": duration_text(max(now - summary.created, 0)),
        "TOOK": duration_text((summary.ended or now) - summary.started) if summary.started else "",
        "EXPERIMENT": printable_text(summary.experiment_name or ""),
        "TAGS": printable_text(tags_text(summary.tags)),
    }
