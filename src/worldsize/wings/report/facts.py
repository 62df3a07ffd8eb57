"""The facts that the sections of a run's page show. They are read once, so that all sections describe the same
moment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any, NamedTuple, TypeAlias
from worldsize.errors import WorldsizeError
from worldsize.plan.plan import Plan, RankPlan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.providers import find_provider, provider
from worldsize.service.runs.masks import text_masker
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import read_events, read_exit
from worldsize.state.records import ExitRecord, RankExit, Status
from worldsize.trust.secrets import mask_text
from worldsize.wings.report.text import value_text

Child: TypeAlias = Any
"""A child of a page's element: an element, text, or a picture, as in the wing `pictures`."""

_NODES = 4096
"""The largest number of nodes of a run whose records are read."""

_LOGGING_RANKS = 64
"""The largest number of ranks whose values are all read. In a larger run, the values of a name are read only from the
lowest rank that has logged it."""

_RECORD_BYTES, _ALL_RECORD_BYTES = 8 << 20, 64 << 20
"""The largest sizes in bytes of a node's events and exit record together, and of those of all nodes. Agents do not
write larger ones."""


class Node(NamedTuple):
    """The records of one node for an attempt. `host` is "" if no record names it, `exit` is None before its agent has
    ended."""

    node_rank: int
    host: str
    ranks: tuple[RankPlan, ...]
    events: tuple[Mapping[str, Any], ...] = ()
    exit: ExitRecord | None = None


class RunFacts(NamedTuple):
    """The facts about a run at the time `now`, in Unix seconds.

    plan      None if there is none, or it cannot be read
    record    record.json; empty if it cannot be read
    nodes     those of the latest attempt
    mask      a function that masks secrets in a text
    pictures  the wing's provider
    metrics   the wing's provider; None if this installation does not include the wing
    series    the values that the run's scripts have logged, in the form of that provider
    log_lines the number of lines of each log that are shown
    every_variable  whether all environment variables of the user who submitted the run are shown
    """

    run: Run
    status: Status
    now: float
    plan: Plan | None
    record: Mapping[str, Any]
    nodes: tuple[Node, ...]
    mask: Callable[[str], str]
    pictures: Any
    metrics: Any
    series: Sequence[Any]
    log_lines: int
    every_variable: bool = False

    @property
    def paths(self) -> RunPaths:
        return self.run.paths

    def rank_exits(self) -> dict[int, RankExit]:
        """Return the exit record (RankExit) of each rank of the run that has ended, as a mapping of rank to record."""
        return {each.rank: each for node in self.nodes if node.exit for each in node.exit.ranks}

    def failed_ranks(self) -> list[int]:
        """Return the ranks that failed: first the rank that the run's status names as the cause, if any, then the other
        ranks that ended with an error and were not stopped by an agent."""
        first = [self.status.failure.rank] if self.status.failure and self.status.failure.rank is not None else []
        others = (each.rank for each in self.rank_exits().values() if each.code and not each.stopped)
        return list(dict.fromkeys([*first, *others]))


def read_facts(run: Run, status: Status, log_lines: int, every_variable: bool = False) -> RunFacts:
    """Read the facts about a run that its report page shows, and return them as RunFacts. `log_lines` and
    `every_variable` are passed on. Raise ConfigError if this installation does not include the wing `pictures`."""
    plan, metrics = _plan_of(run), find_provider("metrics")
    return RunFacts(
        run=run,
        status=status,
        now=time.time(),
        plan=plan,
        record=read_object(run.paths.record),
        nodes=read_nodes(run.paths, plan) if plan else (),
        mask=text_masker(run.paths, plan) if plan else mask_text,
        pictures=provider("pictures"),
        metrics=metrics,
        series=metrics.read_series(run.paths, _is_small_run(plan), run.is_own) if metrics else (),
        log_lines=log_lines,
        every_variable=every_variable,
    )


def _is_small_run(plan: Plan | None) -> bool:
    """Return whether the report reads the logged values of every rank: the run has at most `_LOGGING_RANKS` ranks, or
    its plan cannot be read."""
    return plan is None or plan.world_size <= _LOGGING_RANKS


def _plan_of(run: Run) -> Plan | None:
    try:
        return run.plan
    except WorldsizeError:
        return None


def read_nodes(paths: RunPaths, plan: Plan) -> tuple[Node, ...]:
    """Return the records of the run's nodes (at most 4096) for the attempt of `paths`, as a tuple of Node. A node whose
    files are too large has no events and no exit record."""
    left, found = _ALL_RECORD_BYTES, []
    for node in plan.nodes[:_NODES]:
        size = _size(paths.events(node.node_rank)) + _size(paths.exit_record(node.node_rank))
        is_read = size <= min(_RECORD_BYTES, left)
        left -= size if is_read else 0
        found.append(_read_node(paths, node.node_rank, node.ranks) if is_read else Node(node.node_rank, "", node.ranks))
    return tuple(found)


def _read_node(paths: RunPaths, node_rank: int, ranks: tuple[RankPlan, ...]) -> Node:
    events, record = read_events(paths, node_rank), read_exit(paths, node_rank)
    told = [event["host"] for event in events if isinstance(event.get("host"), str)]
    host = value_text(record.host if record else (told or [""])[0])
    return Node(node_rank, host, ranks, tuple(events), record)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0  # there is nothing to read
