"""The verb logs: the output of the ranks."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

from worldsize.cli.console import add_output_option, add_run_argument, find_runs, parse_count, rehearsal_text
from worldsize.cli.output import report, show_bytes, show_log
from worldsize.cli.runs.follow import AttemptReader, LogReader
from worldsize.compute.base import MIRRORED
from worldsize.errors import UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.cli.runs.array_logs import ElementReaders
    from worldsize.service.runs.array import RunArray

_PAUSE = 0.1

_EXAMPLES = """examples:
  worldsize logs                          all ranks of the latest run, lines equal on all ranks folded
  worldsize logs -f --rank 0              follow rank 0
  worldsize logs --node 1 --tail 20       the last lines of every rank of node 1
  worldsize logs --grep 'loss' --fold numbers
  worldsize logs --rank 3 --raw > rank3.txt
  worldsize logs --element 3,5-7          these elements of an array, each line with the element in front
  worldsize logs --timestamps --since 10m what was written in the last ten minutes, with the time of each line
  worldsize logs -o json                  {"rank", "node", "line"} for each line

Lines of one rank are always in its order; across ranks in order of arrival while the run is live (-f), and by rank
afterwards, or by their times with --timestamps, which are exact to a second. With -f the exit code is the run's;
Ctrl-C leaves the run alone."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="follow until the run ends; exit with its code")
    parser.add_argument("--element", metavar="ELEMENTS", help="of an array, only these elements, such as 0,5,8-11")
    parser.add_argument("--rank", metavar="RANKS", help="only these ranks, such as 0,5,8-11")
    parser.add_argument("--node", metavar="NODES", help="only the ranks of these nodes, such as 0,5,8-11")
    parser.add_argument("--grep", metavar="REGEX", help="only lines that match")
    parser.add_argument("--tail", metavar="N", type=parse_count, help="begin with the last N lines of each rank")
    parser.add_argument(
        "--since", metavar="TIME", help="begin with lines written since: an age (10m), or a time (2026-11-20T14:30)"
    )
    parser.add_argument(
        "--timestamps", action="store_true", help="print the time before each line; sorted by time, not folded"
    )
    parser.add_argument(
        "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
    )
    parser.add_argument("--attempt", metavar="K", type=parse_count, help="an earlier attempt (default: the latest)")
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, without prefixes")
    add_output_option(parser)
    parser.set_defaults(act=show_logs)


def show_logs(options: argparse.Namespace) -> int:
    runs = find_runs(options.run)
    if not options.follow and isinstance(runs, Run) and runs.offers(MIRRORED):
        runs.look()
    reader = _open_run(runs, options) if isinstance(runs, Run) else _open_array(runs, options)
    code = 0
    if options.follow:
        from worldsize.cli.runs.follow import state_reporter

        statuses = runs.follow(reader.poll, None, state_reporter(runs), reader.show_statuses)
        code = runs.overall(statuses).exit_code or 0
    reader.finish()
    return code


def _open_run(run: Run, options: argparse.Namespace) -> AttemptReader:
    if options.element is not None:
        raise UsageError(f"{run.id} is not an array", "--element", "leave it out")
    if options.follow:
        _await_plan(run)
    if options.attempt is not None:
        _choose_attempt(run, options)
    if run.has_plan() and run.plan.rehearsal:
        report(f"run {run.id} on {run.plan.compute}{rehearsal_text(run.plan)}")
    return _open_log(run, options, show_log)


def _open_array(array: RunArray, options: argparse.Namespace) -> ElementReaders:
    from worldsize.cli.runs.array_logs import ElementReaders
    from worldsize.logs.selection import parse_numbers

    if options.attempt is not None:
        raise UsageError("is of one run", "--attempt", f"name an element: {array.id}_0")
    chosen = parse_numbers(options.element, len(array), "element") if options.element else range(len(array))
    return ElementReaders(array, chosen, options.output, lambda run, write: _open_log(run, options, write))


def _open_log(run: Run, options: argparse.Namespace, write: Callable[[str], object]) -> AttemptReader:
    return AttemptReader(run, lambda paths: _open_reader(run, paths, options, write))


def _await_plan(run: Run) -> None:
    """Wait until a run that is still being prepared has a plan, or has ended. Until then the run has no ranks whose
    logs could be followed."""
    while not os.path.exists(run.paths.plan) and not run.look().final:
        time.sleep(_PAUSE)


def _choose_attempt(run: Run, options: argparse.Namespace) -> None:
    """Change the paths of `run` to those of the attempt that the option --attempt requests. Raise UsageError if there
    was no such attempt, or if an attempt that is over must be followed."""
    last = run.paths.attempt
    if options.attempt > last:
        attempts = "attempt 0 only" if last == 0 else f"attempts 0 to {last}"
        raise UsageError(f"there was no attempt {options.attempt}", "--attempt", "the run had " + attempts)
    if options.follow and options.attempt < last:
        raise UsageError(f"attempt {options.attempt} is over", "--attempt", "leave out -f")
    run.paths = RunPaths(run.paths.root, options.attempt)


def _open_reader(run: Run, paths: RunPaths, options: argparse.Namespace, write: Callable[[str], object]) -> LogReader:
    from worldsize.logs.merged_log import LogFollower, RawLogFollower
    from worldsize.logs.selection import compile_grep, select_ranks

    _check(options)
    nodes = run.plan.nodes
    since = _since(options.since)
    ranks = select_ranks(nodes, options.rank, options.node)
    grep = compile_grep(options.grep) if options.grep else None
    if since is not None or options.timestamps:
        from worldsize.cli.runs.timed_logs import require_times

        require_times(run, ranks, "--timestamps" if options.timestamps else "--since", time.time())
    if options.raw:
        return RawLogFollower(paths, ranks, show_bytes, options.tail, since)
    tail, live, now = options.tail, options.follow and not run.look().final, time.monotonic
    printer = None
    if options.output == "json":
        from worldsize.cli.runs.json_logs import JsonPrinter

        marks = {"virtual_gpus": run.plan.rehearsal.gpus} if run.plan.rehearsal else {}
        printer = JsonPrinter(nodes, grep, write, marks)
        grep = None
    if options.timestamps:
        from worldsize.cli.runs.timed_logs import TimePrinter
        from worldsize.logs.timed_log import TimedLogFollower

        show = TimePrinter(nodes, len(ranks), write, printer).show
        return TimedLogFollower(paths, ranks, grep, show, now if live else lambda: 0.0, tail=tail, since=since)
    if printer is not None:
        return LogFollower(paths, nodes, ranks, "off", None, write, now, tail=tail, since=since, show=printer.show)
    return LogFollower(paths, nodes, ranks, options.fold, grep, write, now, tail=tail, since=since, live=live)


def _since(text: str | None) -> float | None:
    if text is None:
        return None
    from worldsize.cli.runs.run_filter import parse_since

    return parse_since(text, time.time())


def _check(options: argparse.Namespace) -> None:
    """Check the command-line options of `logs`. Raise UsageError if two of them exclude each other, such as --raw and
    --grep."""
    apart = (("raw", "grep"), ("raw", "fold"), ("raw", "output"), ("output", "fold"))
    for one, other in (*apart, ("raw", "timestamps"), ("timestamps", "fold")):
        if _is_given(options, one) and _is_given(options, other):
            names = {"output": "-o json"}
            what = f"{names.get(one, '--' + one)} and {names.get(other, '--' + other)} cannot be combined"
            raise UsageError(what, None, "leave one of them out")


def _is_given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name) not in (None, False, "text")
