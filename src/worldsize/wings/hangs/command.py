"""The command `stacks`: where the ranks of a running run are now, and which of them keeps the others waiting."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from worldsize.cli.console import add_output_option, add_run_argument, find_run, parse_seconds
from worldsize.cli.output import report_message, show, show_json
from worldsize.errors import UsageError, WorldsizeError
from worldsize.service.providers import provider
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_events
from worldsize.wings.hangs.agent.node_stacks import PROGRAM
from worldsize.wings.hangs.asked_nodes import AskedNodes
from worldsize.wings.hangs.run_stacks import RunStacks, asked_run, ended_ranks, run_stacks

_VERB = "stacks"
_GAP, _LONGEST_GAP = 2.0, 60.0
_PATIENCE = 60.0
"""Seconds to wait for nodes, in addition to the time between two looks."""

_GRACE = 5.0
"""Seconds during which output of stopped nodes is still read."""

_TICK = 0.1

_EXAMPLES = """examples:
  worldsize stacks                        the latest running run: groups of equal stacks, and a verdict
  worldsize stacks 417k --rank 0,5        every thread of these ranks, with file, line and function
  worldsize stacks --all > stacks.txt     of every rank
  worldsize stacks --once                 one look: the ranks' stacks, without a verdict
  worldsize stacks -o json                for programs: {id, attempt, groups, ranks, unanswered, verdict}

The run needs no preparation, and no rank is stopped. The stacks come from py-spy if it is installed and allowed, else
from Python's own faulthandler, else from the kernel's data about the process. Ranks with equal stacks form one group;
the smallest group comes first, since the odd rank is often the cause. Two looks some seconds apart show whether the
run makes progress. `worldsize why` explains how a run ended."""


def configure(name: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="a running run (default: the latest)")
    parser.add_argument(
        "--rank", "--ranks", metavar="RANKS", help="the stacks of these ranks in full, such as 0,5,8-11"
    )
    parser.add_argument("-a", "--all", action="store_true", help="the stacks of all ranks in full")
    parser.add_argument(
        "--seconds", metavar="SECONDS", type=parse_seconds, help="time between the two looks (default: 2, at most 60)"
    )
    parser.add_argument("--once", action="store_true", help="one look: groups of ranks, and no verdict")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=parse_seconds,
        help="how long to wait for the nodes (default: 60, plus --seconds)",
    )
    add_output_option(parser)
    parser.set_defaults(act=_show_stacks)


def _show_stacks(options: argparse.Namespace) -> int:
    gap = _checked_gap(options)
    reached = _find(options.run)
    plan = reached.run.plan
    wanted = _wanted_ranks(options, plan)
    found = _ask(reached, None if options.once else gap, options.timeout)
    if not found.latest and found.unanswered:
        first = found.unanswered[0]
        more = f"; and {len(found.unanswered) - 1} more" if len(found.unanswered) > 1 else ""
        raise WorldsizeError(f"no node has sent stacks: node {first.node}: {first.reason}{more}")
    if options.output == "json":
        from worldsize.wings.hangs.stacks_json import stacks_object

        show_json(stacks_object(found, wanted or list(found.run.nodes)))
    else:
        from worldsize.wings.hangs.stacks_text import stacks_lines

        show(*stacks_lines(found, wanted))
    return 0


def _checked_gap(options: argparse.Namespace) -> float:
    """Return the seconds between the two looks of the command `stacks`. Raise UsageError for options that cannot be
    combined, and for a time that is too long."""
    for wrong, what in (
        (options.rank is not None and options.all, "both --rank and --all choose the stacks that are shown in full"),
        (options.seconds is not None and options.once, "--seconds is the time between two looks; --once takes one"),
    ):
        if wrong:
            raise UsageError(what, None, "leave one of them out")
    if options.seconds is None:
        return _GAP
    if options.seconds > _LONGEST_GAP:
        raise UsageError(f"{options.seconds:g} s is too long", "--seconds", f"at most {_LONGEST_GAP:g}")
    return float(options.seconds)


def _find(name: str | None) -> Any:
    """Return the running run that `name` identifies, or the latest if it is None, with the connection to its nodes.
    Raise UsageError for a run that has ended, otherwise the same errors as the command `exec`."""
    running_runs = provider("running_runs")
    if name is None:
        reached = running_runs.find_reachable(None, _VERB)
        if reached is None:
            raise running_runs.no_running_run_error("`worldsize why` explains how the latest run ended")
        return reached
    run = find_run(name)
    run.refuse_foreign(_VERB)
    status = run.look()
    if status.final:
        what = f"{run.id} is over ({status.state}): its ranks no longer have stacks"
        raise UsageError(what, None, f"`worldsize why {run.id}` explains how it ended")
    return running_runs.find_running(run, _VERB, status)


def _wanted_ranks(options: argparse.Namespace, plan: Any) -> tuple[int, ...]:
    from worldsize.logs.selection import select_ranks

    return select_ranks(plan.nodes, options.rank) if options.all or options.rank is not None else ()


def _ask(reached: Any, gap: float | None, timeout: float | None) -> RunStacks:
    """Return the stacks of the run's ranks from each node, and the verdict on which rank keeps the others waiting. Each
    node looks at its ranks twice, with `gap` seconds between, or once if `gap` is None."""
    run: Run = reached.run
    looks = 1 if gap is None else 2
    answers = AskedNodes({node.node_rank: [each.rank for each in node.ranks] for node in run.plan.nodes}, looks)
    words = ("-I", "-S", "-c", PROGRAM, str(run.paths.attempt), str(looks), str(gap or 0.0))
    command = reached.node_command(words, [node.node_rank for node in run.plan.nodes])
    command = command._replace(python=True, named=(run.paths.agent,))
    patience = _PATIENCE + (gap or 0.0) if timeout is None else timeout
    is_late = _follow(reached.compute.execute(reached.handle, command), answers, patience)
    asked = asked_run(run.id, run.paths.attempt, run.plan)
    events = [event for node in run.plan.agents for event in read_events(run.paths, node.node_rank)]
    unanswered = answers.unanswered(f"it has not answered within {patience:g} s" if is_late else "")
    samples = [answers.look(number) for number in range(1, looks + 1)]
    return run_stacks(asked, samples, ended_ranks(events, asked.nodes), unanswered, os.sysconf("SC_CLK_TCK"))


def _follow(stream: Any, answers: AskedNodes, patience: float) -> bool:
    """Pass the nodes' output in `stream` to `answers` until all nodes have ended, or for `patience` seconds. Return
    whether the nodes were stopped because the time was over."""
    deadline = time.monotonic() + patience
    stopped = False
    try:
        while (events := stream.read_events(_TICK)) is not None:
            for text in answers.take(events):
                report_message(text)
            if time.monotonic() >= deadline:
                if stopped:
                    break
                stream.stop()
                stopped, deadline = True, time.monotonic() + _GRACE
    finally:
        stream.close()
    return stopped
