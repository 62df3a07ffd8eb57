"""The verb why: the cause of a run's end, and the chain from it to what the other ranks reported; for an array, its
causes."""

from __future__ import annotations

import argparse
import sys

from worldsize.cli.clock import clock_text
from worldsize.cli.console import add_output_option, add_run_argument, find_run, find_runs
from worldsize.cli.output import show, show_json, state_text
from worldsize.common.numbers import nodes_text, ranks_text
from worldsize.diagnose.cause_record import Cause
from worldsize.diagnose.explanation import Explanation, Link
from worldsize.service.runs.causes import RunsOfCause, causes_of_runs
from worldsize.service.runs.explanation import explain_run
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status

_LONGEST = 200
_RUNS = 8
"""The number of runs of a cause that are named."""

_EXAMPLES = """examples:
  worldsize why                         of the latest run that was started here
  worldsize why 417k -o json            for programs: {cause, chain, notes}
  worldsize why 417k --all              an array's runs that failed, by cause"""


def configure(name: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument("--all", action="store_true", help="of an array: all its failed runs, grouped by cause")
    add_output_option(parser)
    parser.set_defaults(act=_show_why)


def _show_why(options: argparse.Namespace) -> int:
    if options.all:
        return _show_causes(options)
    run = find_run(options.run, array_hint="`worldsize why --all` explains all of them")
    status = run.look()
    explanation = explain_run(run.paths, run.plan, status) if run.has_plan() else None
    if options.output == "json":
        told = explanation.to_json() if explanation else {"cause": None, "chain": [], "notes": []}
        show_json({"id": run.id, "state": status.state, "reason": status.reason, **told})
    elif explanation is None:
        show(f"run {run.id} {state_text(status.state, sys.stdout)}: {_not_explained(status)}")
    else:
        show(*why_screen(run, status, explanation))
    return 0


def _not_explained(status: Status) -> str:
    if status.state == RunState.SUCCEEDED:
        return "every rank has ended with 0"
    return "it has not ended" if not status.final else status.message or "no evidence was recorded"


def why_screen(run: Run, status: Status, explanation: Explanation) -> list[str]:
    """Return the lines that `why` shows for the explanation of a run's failure: the cause with its evidence, the chain
    of what followed, notes and hints."""
    cause = explanation.cause
    lines = [f"run {run.id} {state_text(status.state, sys.stdout)}" + (f": {status.reason}" if status.reason else "")]
    lines += ["", f"cause ({cause.standing}, {cause.id}): {cause.sentence}"]
    who = " on ".join(filter(None, (ranks_text(cause.ranks), nodes_text(_nodes_of(cause, run)))))
    lines += [f"  {who}" + ("" if cause.time is None else f", at {clock_text(cause.time)}")] if who else []
    lines += [f"  {_cut(each)}" for each in cause.evidence]
    if explanation.chain:
        lines += ["", "chain:", *(_chain_line(link, run) for link in explanation.chain)]
    if explanation.left_out:
        lines += [f"  and {explanation.left_out} more"]
    lines += [f"note: {note}" for note in explanation.notes]
    lines += ["", *([f"what to do: {cause.hint}"] if cause.hint else [])]
    lines += [f"documentation: {explanation.documentation}"]
    lines += [f"full log: worldsize logs {run.id}" + ("" if cause.rank is None else f" --rank {cause.rank}")]
    return lines


def _nodes_of(cause: Cause, run: Run) -> list[int]:
    """Return the numbers of the nodes of the ranks in a failure's cause; for a cause without ranks, the node that
    failed, if it is known."""
    if not cause.ranks:
        return [] if cause.node is None else [cause.node]
    return [node.node_rank for node in run.plan.nodes if any(rank.rank in cause.ranks for rank in node.ranks)]


def _chain_line(link: Link, run: Run) -> str:
    where = f"node {link.node}" if link.node is not None else "batch log"
    whose = ranks_text(link.ranks) or where
    said = _cut(link.text) if link.text.startswith(whose + " ") else f"{whose}: {_cut(link.text)}"
    file = link.file.removeprefix(run.paths.root + "/")
    place = f" ({file}:{link.line})" if link.file and link.line else ""
    meaning = f" = {link.meaning}" if not link.ranks and link.meaning else ""
    return f"  {link.role:12}  {clock_text(link.time)}  {said}{place}{meaning}"


def _show_causes(options: argparse.Namespace) -> int:
    found = find_runs(options.run)
    groups = causes_of_runs(found)
    if options.output == "json":
        show_json([{"runs": list(group.runs), **group.explanation.to_json()} for group in groups])
    elif not groups:
        show(f"no run of {found.id} has failed")
    for group in groups if options.output != "json" else ():
        show(*_cause_lines(group))
    return 0


def _cause_lines(group: RunsOfCause) -> list[str]:
    cause = group.explanation.cause
    shown = ", ".join(group.runs[:_RUNS]) + (f" and {len(group.runs) - _RUNS} more" if len(group.runs) > _RUNS else "")
    lines = [f"{len(group.runs)} × {cause.id} ({cause.standing}): {cause.sentence}", f"  {shown}"]
    lines += [f"  {_cut(each)}" for each in cause.evidence[:1]]
    return [*lines, *([f"  what to do: {cause.hint}"] if cause.hint else [])]


def _cut(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= _LONGEST else said[:_LONGEST] + "…"
