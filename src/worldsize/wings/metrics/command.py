"""The command `worldsize metrics`, which shows what runs have logged and what they have used."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from worldsize.cli.console import add_output_option, complete_runs, find_runs, set_completer
from worldsize.cli.output import report, show, show_document, show_json
from worldsize.errors import UsageError, WorldsizeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.metrics.selection import ChosenRun, RunValues, Wanted

_NAMES = 10

_EXAMPLES = """examples:
  worldsize metrics                           the latest run: each value that its script has logged
  worldsize metrics --name 'val/*' --rank all
  worldsize metrics --used                    the CPUs, memory, network and GPUs that its ranks use
  worldsize metrics --csv > values.csv        every value of every rank
  worldsize metrics --plot loss.png --name loss
  worldsize metrics 417k 9f2c --value lowest  two runs side by side
  worldsize metrics 5d1e                      an array: a row for each element"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    runs = parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="runs, or arrays; else the latest that was started in this directory"
    )
    set_completer(runs, complete_runs)
    names = parser.add_argument(
        "--name", metavar="PATTERN", action="append", default=[], help="only these names, such as 'val/*' (repeatable)"
    )
    set_completer(names, complete_names)
    parser.add_argument(
        "--rank", metavar="RANKS", help="only these ranks, such as 0,5,8-11, or all (default: the lowest that logs)"
    )
    parser.add_argument(
        "--value",
        choices=("last", "lowest", "highest"),
        default="last",
        help="the value shown for several runs (default: last)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--used", action="store_true", help="the CPUs, memory, network and GPUs that nodes and ranks have used"
    )
    form.add_argument("--csv", action="store_true", help="every value, one in a row, as CSV")
    form.add_argument("--plot", metavar="FILE", help="a picture, .png or .svg (extra plots)")
    add_output_option(parser)
    parser.set_defaults(act=show_metrics)


def complete_names(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Return the names of the values that the run on the command line, else the latest run, has logged last, for shell
    completion; an empty list on an error."""
    from worldsize.wings.metrics.logged_values import newest_names

    try:
        run = find_runs((parsed_args.runs or [None])[0]).runs()[0]
        return newest_names(run.paths)
    except WorldsizeError:
        return []  # errors cannot be shown during shell completion


def show_metrics(options: argparse.Namespace) -> int:
    from worldsize.wings.metrics.selection import Wanted, runs_of

    if options.output == "json" and (options.csv or options.plot):
        form = "--csv" if options.csv else "--plot"
        raise UsageError(f"{form} and -o json cannot be combined", None, "leave one of them out")
    runs = [each for text in options.runs or [None] for each in runs_of(find_runs(text))]
    wanted = Wanted(options.name, options.rank)
    if options.used:
        _show_used(runs, options.output == "json")
    elif options.csv:
        _show_csv(runs, wanted)
    else:
        _show_values(runs, wanted, options)
    return 0


def _show_csv(runs: Sequence[ChosenRun], wanted: Wanted) -> None:
    from worldsize.wings.metrics.documents import write_csv

    write_csv(runs, wanted, show_document)


def _show_values(runs: Sequence[ChosenRun], wanted: Wanted, options: argparse.Namespace) -> None:
    from worldsize.wings.metrics.documents import values_data
    from worldsize.wings.metrics.selection import read_values

    if options.plot:
        from worldsize.wings.metrics.plot import picture_format

        picture_format(options.plot)
    values = [read_values(run, wanted) for run in runs]
    if options.output == "json":
        show_json([row for each in values for row in values_data(each)])
    elif not any(each.summaries for each in values):
        report(*_nothing_lines(values, wanted))
    elif options.plot:
        _plot(options.plot, values)
    else:
        _show_table(values, options.value)
    _report_unreadable(runs)


def _plot(path: str, values: Sequence[RunValues]) -> None:
    from worldsize.wings.metrics.plot import write_picture

    left = write_picture(path, values)
    if left:
        report(f"{left} more names do not fit into the picture: select with --name")


def _show_table(values: Sequence[RunValues], which: str) -> None:
    from worldsize.wings.metrics.tables import runs_table, values_table

    if len(values) == 1 and not values[0].chosen.array:
        show(*values_table(values[0], time.time()))
    else:
        show(*runs_table(values, which))


def _report_unreadable(runs: Sequence[ChosenRun]) -> None:
    from worldsize.wings.metrics.all_series import unreadable_files

    for run in runs:
        report(*("notice: " + text for text in unreadable_files(run.run.paths)))


def _nothing_lines(values: Sequence[RunValues], wanted: Wanted) -> list[str]:
    """Return lines of text with the reason why `worldsize metrics` has no values to show for the runs, and hints on
    what to do."""
    from worldsize.logs.text import format_ranges
    from worldsize.wings.metrics.run_files import sampled_nodes
    from worldsize.wings.metrics.words import shortened

    names = sorted({name for each in values for name in each.names})
    ranks = sorted({rank for each in values for rank in each.ranks})
    who = values[0].chosen.id if len(values) == 1 else f"{len(values)} runs"
    if names and wanted.names:
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        there = ", ".join(map(shortened, names[:_NAMES])) + more
        return [f"no value of {who} is named {' or '.join(wanted.names)}; there are: {there}"]
    if wanted.ranks is not None and ranks:
        return [f"{who}: rank {wanted.ranks} has logged no values; these have: {format_ranges(ranks)}"]
    lines = [
        f"{who}: no values logged",
        "  → worldsize.log(step=step, loss=loss) in the script; values of TensorBoard or MLflow are read as well",
    ]
    if any(sampled_nodes(each.chosen.run.paths) for each in values):
        lines.append("  → worldsize metrics --used shows the ranks' resource use")
    return lines


def _show_used(runs: Sequence[ChosenRun], as_json: bool) -> None:
    from worldsize.wings.metrics.documents import used_data
    from worldsize.wings.metrics.tables import used_tables
    from worldsize.wings.metrics.usage import run_figures

    found = [(run.id, run_figures(run.run.paths)) for run in runs]
    if as_json:
        show_json([row for run, nodes in found for row in used_data(run, nodes)])
        return
    for run, nodes in found:
        if not nodes:
            why = "it ended, or began, within seconds; or its compute has `metrics = false`"
            report(f"{run}: nothing sampled: {why}")
        else:
            show(*([f"{run}:"] if len(found) > 1 else []), *used_tables(nodes))
