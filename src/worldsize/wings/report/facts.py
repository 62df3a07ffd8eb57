"""What the sections of a run's page are made of, read once: they all tell of one moment."""

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
"""An element, text, or a picture, as the wing `pictures` has them."""

_NODES = 4096
"""The most nodes of a run whose records are read."""

_LOGGING_RANKS = 64
"""Of a run with more ranks, a name's values are read of the lowest rank that has logged it."""

_RECORD_BYTES, _ALL_RECORD_BYTES = 8 << 20, 64 << 20
"""The most bytes of a node's events and exit record, and of those of all nodes; larger ones are no agents'."""


class Node(NamedTuple):
    """What a node has left of an attempt. `host` is "" where nothing tells it, `exit` None before its agent's end."""

    node_rank: int
    host: str
    ranks: tuple[RankPlan, ...]
    events: tuple[Mapping[str, Any], ...] = ()
    exit: ExitRecord | None = None


class RunFacts(NamedTuple):
    """A run as it is at the time `now`, in Unix seconds.

    plan      None where there is none, or it cannot be read
    record    record.json; empty where it cannot be read
    nodes     those of the latest attempt
    mask      masks secrets in a text
    pictures  the wing's provider
    metrics   the wing's provider; None where this installation is without
    series    what the run's scripts have logged, as that provider has it
    log_lines how many lines of each log are shown
    every_variable  whether all variables of whoever submitted are shown
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
        """How the ranks that have ended did so."""
        return {each.rank: each for node in self.nodes if node.exit for each in node.exit.ranks}

    def failed_ranks(self) -> list[int]:
        """Return the first rank that failed, then the others that ended with an error by themselves."""
        first = [self.status.failure.rank] if self.status.failure and self.status.failure.rank is not None else []
        others = (each.rank for each in self.rank_exits().values() if each.code and not each.stopped)
        return list(dict.fromkeys([*first, *others]))


def read_facts(run: Run, status: Status, log_lines: int, every_variable: bool = False) -> RunFacts:
    """Return the facts of a run. Raises ConfigError where this installation is without the wing `pictures`."""
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
    """Return whether there is time to read what every rank has logged."""
    return plan is None or plan.world_size <= _LOGGING_RANKS


def _plan_of(run: Run) -> Plan | None:
    try:
        return run.plan
    except WorldsizeError:
        return None


def read_nodes(paths: RunPaths, plan: Plan) -> tuple[Node, ...]:
    """What the nodes have left of the attempt of `paths`."""
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
