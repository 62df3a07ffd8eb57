"""list: the latest runs, or the elements of an array."""

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
    set_completer,
    tags_text,
)
from worldsize.cli.output import report, show, show_json, show_json_text, state_text
from worldsize.cli.table import table
from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.state.records import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.store.summaries import Summary

NEWEST = 20
_OFTEN_EMPTY = ("REASON", "EXPERIMENT", "TAGS")
_WHOLE = ("STATE", "SIZE", "AGE", "TOOK")
_OPTIONAL = ("EXPERIMENT", "TAGS", "TOOK", "COMPUTE", "SIZE", "REASON")
"""What a narrow terminal has no room for, the first first."""

_COMPLETED = 50

_EXAMPLES = """examples:
  worldsize list                              the newest 20
  worldsize list --all --state FAILED -o json
  worldsize list --experiment resnet --tag lr=0.1 --tag swept
  worldsize list 417k                         the elements of an array, each with its inputs"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="only this run, or the elements of this array")
    parser.add_argument("-e", "--elements", action="store_true", help="the elements of arrays, each in a row")
    parser.add_argument("-a", "--all", action="store_true", help=f"every run, not the newest {NEWEST}")
    parser.add_argument("-n", metavar="N", type=parse_count, default=NEWEST, dest="count", help="the newest N")
    state = parser.add_argument("--state", metavar="STATE", help="only runs in this state")
    set_completer(state, complete_states)
    experiment = parser.add_argument("--experiment", metavar="NAME", help="only runs of this experiment")
    set_completer(experiment, complete_experiments)
    tag = parser.add_argument(
        "--tag", metavar="KEY[=VALUE]", action="append", type=parse_tag, default=[], dest="tags",
        help="only runs with this tag; may be repeated",
    )  # fmt: skip
    set_completer(tag, complete_tags)
    add_output_option(parser)
    parser.set_defaults(act=list_runs)


def complete_states(**_: Any) -> list[str]:
    return [name for name in vars(RunState) if name.isupper() and name != "FINAL"]


def parse_state(text: str | None) -> str | None:
    known = complete_states()
    if text is not None and text.upper() not in known:
        raise UsageError(f"there is no state {text}", "--state", f"one of {', '.join(known)}")
    return text.upper() if text else None


def complete_experiments(**_: Any) -> list[str]:
    return sorted({each.experiment_name for each in _ended_summaries() if each.experiment_name})


def complete_tags(**_: Any) -> list[str]:
    return sorted({f"{name}={value}" for each in _ended_summaries() for name, value in each.tags.items()})


def _ended_summaries() -> list[Summary]:
    """Of those of the newest runs that have ended: no compute is asked for a completion."""
    from worldsize.store.find import list_ids
    from worldsize.store.runs import runs_link_dir
    from worldsize.store.summaries import final_summary

    home = load_current_config().home
    found = (final_summary(f"{runs_link_dir(home)}/{run_id}/result.json") for run_id in list_ids(home, _COMPLETED))
    return [each for each in found if each is not None]


def parse_tag(text: str) -> tuple[str, str | None]:
    """KEY and VALUE of "KEY=VALUE"; of "KEY" alone any value will do, which is None."""
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r:.40} has no key")
    return name, value if equals else None


def is_labelled(summary: Summary, experiment: str | None, tags: Sequence[tuple[str, str | None]]) -> bool:
    """Whether it is of this experiment, where one is said, and has all of the tags."""
    if experiment is not None and summary.experiment_name != experiment:
        return False
    return all(name in summary.tags and value in (None, summary.tags[name]) for name, value in tags)


def _wanted_text(state: str | None, options: argparse.Namespace) -> str:
    """What runs are looked for, after "no run is"; "" for any."""
    words = [state] if state else []
    words += [f"of experiment {options.experiment}"] if options.experiment is not None else []
    words += ["tagged " + (name if value is None else f"{name}={value}") for name, value in options.tags]
    return ", ".join(words)


def list_runs(options: argparse.Namespace) -> int:
    wanted = parse_state(options.state)
    sought = _wanted_text(wanted, options)
    found = [
        each
        for each in _summaries(options, bool(sought))
        if wanted in (None, each.state) and is_labelled(each, options.experiment, options.tags)
    ]
    if not options.all and options.run is None and not options.elements:
        found = found[: options.count]
    if options.output == "json":
        _show_json(found)
    elif found:
        show(*_colour_states(table(*_columns(found), whole=_WHOLE, optional=_OPTIONAL), found))
    elif sought:
        report(f"no run is {sought}")
    elif options.count:
        report("no runs yet: worldsize run -w 1x2 -- python train.py")
    return 0


def _show_json(found: list[Summary]) -> None:
    import msgspec

    try:
        show_json_text(msgspec.json.format(msgspec.json.encode(found)).decode())
    except UnicodeEncodeError:  # the name of a file that is no UTF-8, say
        show_json(msgspec.to_builtins(found))


def _summaries(options: argparse.Namespace, searching: bool) -> list[Summary]:
    from worldsize.service.runs.summaries import element_summaries, live_summaries, with_element_summaries
    from worldsize.store.find import list_ids
    from worldsize.store.summaries import summaries

    if options.run is not None:
        return element_summaries(find_runs(options.run))
    home = load_current_config().home
    ids = list_ids(home, None if options.all or searching else options.count)
    found = summaries(home, ids, lambda paths: live_summaries(paths, os.environ))
    return list(with_element_summaries(found, home, os.environ)) if options.elements else found


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
    """The rows of the table, and the headers; of the columns that often say nothing those that say something."""
    rows = [_cells(summary) for summary in found]
    headers = [header for header in rows[0] if header not in _OFTEN_EMPTY or any(row[header] for row in rows)]
    return [[row[header] for header in headers] for row in rows], headers


def _cells(summary: Summary) -> dict[str, str]:
    """A row of the table, by its headers."""
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
