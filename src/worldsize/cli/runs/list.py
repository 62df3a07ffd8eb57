"""list: the latest runs, or the elements of an array."""

from __future__ import annotations

import argparse
import sys
import time

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    duration_text,
    find_runs,
    load_current_config,
    parse_count,
    set_completer,
    state_text,
    table,
)
from worldsize.cli.output import report, show, show_json, show_json_text
from worldsize.common.atomic_files import printable_text
from worldsize.errors import UsageError
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NEWEST = 20

_EXAMPLES = """examples:
  worldsize list                              the newest 20
  worldsize list --all --state FAILED -o json
  worldsize list 417k                         the elements of an array, each with its inputs"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="only this run, or the elements of this array")
    parser.add_argument("-e", "--elements", action="store_true", help="the elements of arrays, each in a row")
    parser.add_argument("-a", "--all", action="store_true", help=f"every run, not the newest {NEWEST}")
    parser.add_argument("-n", metavar="N", type=parse_count, default=NEWEST, dest="count", help="the newest N")
    state = parser.add_argument("--state", metavar="STATE", help="only runs in this state")
    set_completer(state, complete_states)
    add_output_option(parser)
    parser.set_defaults(act=list_runs)


def complete_states(**_: Any) -> list[str]:
    return [name for name in vars(RunState) if name.isupper() and name != "FINAL"]


def parse_state(text: str | None) -> str | None:
    known = complete_states()
    if text is not None and text.upper() not in known:
        raise UsageError(f"there is no state {text}", "--state", f"one of {', '.join(known)}")
    return text.upper() if text else None


def list_runs(options: argparse.Namespace) -> int:
    wanted = parse_state(options.state)
    rows = [row for row in _rows(options, wanted is not None) if wanted in (None, row.state)]
    if not options.all and options.run is None and not options.elements:
        rows = rows[: options.count]
    if options.output == "json":
        _show_json(rows)
    elif rows:
        headers = ["RUN", "NAME", "STATE", "REASON", "COMPUTE", "SIZE", "AGE", "TOOK"]
        show(*_colour_states(table([_row(row) for row in rows], headers), rows))
    elif wanted:
        report(f"no run is {wanted}")
    elif options.count:
        report("no runs yet: worldsize run -w 1x2 -- python train.py")
    return 0


def _show_json(rows: list[Any]) -> None:
    import msgspec

    try:
        show_json_text(msgspec.json.format(msgspec.json.encode(rows)).decode())
    except UnicodeEncodeError:  # the name of a file that is no UTF-8, say
        show_json(msgspec.to_builtins(rows))


def _rows(options: argparse.Namespace, searching: bool) -> list[Any]:
    from worldsize.cli.runs.rows import element_rows, live_summaries, with_elements
    from worldsize.store.find import list_ids
    from worldsize.store.summaries import summaries

    if options.run is not None:
        found = find_runs(options.run)
        if isinstance(found, Run):
            return live_summaries([found.paths])
        return list(element_rows(found))
    home = load_current_config().home
    rows: list[Any] = summaries(
        home, list_ids(home, None if options.all or searching else options.count), live_summaries
    )
    if not options.elements:
        return rows
    return list(with_elements(rows, home))


def _colour_states(lines: list[str], rows: list[Any]) -> list[str]:
    if not sys.stdout.isatty():
        return lines
    head, *lines = lines
    at = head.index("STATE")
    painted = [
        line[:at] + line[at:].replace(row.state, state_text(row.state, sys.stdout), 1)
        for line, row in zip(lines, rows, strict=True)
    ]
    return [head, *painted]


def _row(row: Any) -> list[str]:
    now = time.time()
    took = duration_text((row.ended or now) - row.started) if row.started else ""
    size = f"{row.nodes}x{row.ranks // max(row.nodes, 1)}"
    name, reason = row.name, row.reason or ""
    if row.states:
        size = f"{sum(row.states.values())} of {size}"
        reason = ", ".join(f"{number} {state}" for state, number in row.states.items())
    if row.inputs:
        name = " ".join("{}={}".format(*item) for item in row.inputs.items())
    age = duration_text(max(now - row.created, 0))
    compute = row.compute + (" (rehearsal)" if row.virtual_gpus else "")
    return [row.id, printable_text(name), row.state, reason, compute, size, age, took]
