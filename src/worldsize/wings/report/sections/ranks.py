"""The ranks: the node of each rank and how it ended, and what a check found on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.agent.outcome.rank_failure import read_error
from worldsize.cli.console import count_text, duration_text
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import RankPlan
from worldsize.state.check_rows import OK, VERDICTS, CheckRow, row_of
from worldsize.state.records import RankExit
from worldsize.wings.report.facts import Child, Node, RunFacts
from worldsize.wings.report.sections.logs import log_id, shown_ranks
from worldsize.wings.report.text import code_text, filled_columns, shorten, value_text

_SHOWN = 256
"""The largest number of ranks of a run that are all shown. In a larger run, the failed ranks are shown, and the others
are folded."""

_MOST = 4096
_ERROR = 300
_HEADERS = ("rank", "role", "node", "host", "pid", "CPUs", "started after", "ran for", "exit code", "error", "log")


def ranks(facts: RunFacts) -> list[Child]:
    everyone = [(node, rank) for node in facts.nodes for rank in node.ranks]
    if len(everyone) <= _SHOWN:
        return [_table(facts, everyone)] if everyone else []
    failed = set(facts.failed_ranks())
    first = [each for each in everyone if each[1].rank in failed][:_SHOWN]
    others = [each for each in everyone if each[1].rank not in failed]
    shown = others[: _MOST - len(first)]
    left = len(everyone) - len(first) - len(shown)
    summary = f"{count_text(len(shown), 'other rank')}" + (f" (and {left} more, left out)" if left else "")
    folded = facts.pictures.details(summary, _table(facts, shown))
    return [*([_table(facts, first)] if first else []), folded]


def _table(facts: RunFacts, rows: Sequence[tuple[Node, RankPlan]]) -> Child:
    exits, logged, failed = facts.rank_exits(), set(shown_ranks(facts)), set(facts.failed_ranks())
    started = {node.node_rank: _started(node) for node in {id(node): node for node, _ in rows}.values()}
    submitted = facts.plan.created if facts.plan else 0.0
    cells = [
        [
            str(rank.rank),
            value_text(f"{rank.role} {rank.role_index}", 80),
            str(node.node_rank),
            node.host,
            *_place(started[node.node_rank], rank.rank),
            *_end(exits.get(rank.rank), submitted, node.exit is not None),
            _error(facts, rank.rank) if rank.rank in failed else "",
            _log_link(facts, rank.rank) if rank.rank in logged else "",
        ]
        for node, rank in rows
    ]
    return facts.pictures.table(*filled_columns(_HEADERS, cells))


def _started(node: Node) -> Mapping[str, Any]:
    """Return the event "ranks_started" of a node, which contains the process ids of its ranks; {} if they have not
    started."""
    return next((event for event in node.events if event.get("event") == "ranks_started"), {})


def _place(started: Mapping[str, Any], rank: int) -> list[str]:
    """Return the process id of a rank, and the CPUs to which it was bound, as two texts ("" if unknown). `started` is
    the event "ranks_started" of its node."""
    found = (started.get(name) for name in ("pids", "cpus"))
    return [value_text(each.get(str(rank)), 80) if isinstance(each, dict) else "" for each in found]


def _end(found: RankExit | None, submitted: float, over: bool) -> list[str]:
    """Return three texts about a rank for the table of ranks: the time between the run's submission and the rank's
    start, the time that the rank ran, and its exit code. `found` is None for a rank without exit record; `over` states
    that its node has ended."""
    if found is None:
        return ["", "", "not started" if over else ""]
    stopped = ", asked to end" if found.stopped else ""
    times = [found.started - submitted, found.ended - found.started]
    return [*(duration_text(max(0.0, seconds)) for seconds in times), code_text(found.code) + stopped]


def _error(facts: RunFacts, rank: int) -> str:
    """Return the exception that a rank has recorded in its error file, as one line "TYPE: MESSAGE"; "" if there is
    none."""
    error = read_error(facts.paths, rank)
    if error is None:
        return ""
    return shorten(facts.mask(f"{error['type']}: {error['message']}".partition("\n")[0]), _ERROR)


def _log_link(facts: RunFacts, rank: int) -> Child:
    return facts.pictures.element("a", "log", href="#" + log_id(rank))


def checks(facts: RunFacts) -> list[Child]:
    """Render, for the report page, the rows that the check of the nodes has recorded before the ranks started: the
    problems first, the rest folded. Nothing if no check was made."""
    rows = _check_rows(facts)
    if not rows:
        return []
    bad = sorted((row for row in rows if row.verdict != OK), key=lambda row: -VERDICTS.index(row.verdict))
    good = [row for row in rows if row.verdict == OK]
    found = [_check_table(facts, bad)] if bad else []
    if good:
        found.append(
            facts.pictures.details(f"{count_text(len(good), 'row')} without a fault", _check_table(facts, good))
        )
    return found


def _check_rows(facts: RunFacts) -> list[CheckRow]:
    said = read_object(facts.paths.attempt_dir + "/check.json").get("rows", [])
    return [row_of(each) for each in said[:_MOST]]


def _check_table(facts: RunFacts, rows: Iterable[CheckRow]) -> Child:
    texts = [[row.verdict, value_text(row.node), row.id, row.what, row.value, row.hint] for row in rows]
    return facts.pictures.table(("verdict", "node", "row", "what", "value", "hint"), texts)
