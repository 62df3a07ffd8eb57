"""The results of a check, as text and as data."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence

from worldsize.cli.console import count_text, duration_text
from worldsize.cli.output import show, show_json, state_text
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import BAD, OK, UNKNOWN, VERDICTS, WARNING, CheckRow, worst_verdict

_ORDER = (BAD, WARNING, UNKNOWN)
_NUMBER = re.compile(r"(\D*?)(\d[\d,]*(?:\.\d+)?)(\D.*|)", re.DOTALL)
_SHOWN_VALUES = 3
_SHOWN_NODES = 4


class CheckResults(NamedTuple):
    """The results of a check.

    run      the id of the run that performed the check; None if no run did
    seconds  the seconds that its nodes took
    hosts    the nodes' names, by their ranks
    rows     the rows in the order of the checks
    """

    run: str | None
    seconds: float
    hosts: tuple[str, ...]
    rows: tuple[CheckRow, ...]

    @property
    def verdict(self) -> str:
        return worst_verdict(self.rows)

    def bad_nodes(self) -> list[str]:
        """Return the names of the nodes that failed a check (with a row whose verdict is "bad"), in the order of their
        ranks."""
        bad = {row.node for row in self.rows if row.verdict == BAD}
        return [host for host in self.hosts if host in bad]

    def bad_everywhere(self) -> list[str]:
        """Return the ids of the failed checks (rows with the verdict "bad") that belong to no node."""
        return list(dict.fromkeys(row.id for row in self.rows if row.verdict == BAD and row.node not in self.hosts))

    def data(self) -> dict[str, Any]:
        """Return the results of the check for JSON as {run, seconds, nodes, rows: [{node, id, what, value, verdict,
        hint}], verdict}."""
        rows = [row._asdict() for row in self.rows]
        return {
            "run": self.run,
            "seconds": round(self.seconds, 3),
            "nodes": list(self.hosts),
            "rows": rows,
            "verdict": self.verdict,
        }


def show_results(found: CheckResults, output: str) -> int:
    """Show the results of a check on stdout as JSON or text, as the option `-o` requests. Return the command's exit
    code, which is 1 if something is bad."""
    if output == "json":
        show_json(found.data())
    else:
        show(*result_lines(found))
    return exit_code(found)


def exit_code(found: CheckResults) -> int:
    return 1 if found.verdict == BAD else 0


def result_lines(found: CheckResults) -> list[str]:
    """Return the lines of text that show the results of a check: the bad rows, the warnings, the unknown rows, the good
    rows by ids, and a summary."""
    rows = [row for verdict in _ORDER for row in found.rows if row.verdict == verdict]
    width = max((len(row.id) for row in found.rows), default=0)
    lines = [_line(verdict, name, text, width) for verdict, name, text in (*_problems(rows), *_successes(found.rows))]
    return [*lines, summary_line(found)]


def _line(verdict: str, name: str, text: str, width: int) -> str:
    column = max(map(len, VERDICTS))
    return f"{state_text(verdict, sys.stdout)}{' ' * (column - len(verdict))}  {name.ljust(width)}  {text}"


def _problems(rows: Sequence[CheckRow]) -> Iterable[tuple[str, str, str]]:
    """Yield (verdict, id, text) for the rows of a check that are not good. Rows that are the same for several nodes
    become one, whose text names the nodes."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        groups.setdefault(row[1:], []).append(row.node)
    for (name, what, value, verdict, hint), nodes in groups.items():
        where = _nodes_text([node for node in nodes if node])
        words = ": ".join(word for word in (where, what, value) if word)
        yield verdict, name, f"{words} ({hint})" if hint else words


def _nodes_text(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:_SHOWN_NODES])
    return f"{shown} and {len(nodes) - _SHOWN_NODES} more" if len(nodes) > _SHOWN_NODES else shown


def _successes(rows: Iterable[CheckRow]) -> Iterable[tuple[str, str, str]]:
    """Yield (verdict, id, text) for the good rows of a check: one for each check's id, and for each of several objects
    that were checked under it. The text names the object if the id alone does not identify it."""
    groups: dict[tuple[str, str], list[CheckRow]] = {}
    for row in rows:
        if row.verdict == OK:
            groups.setdefault((row.id, row.what), []).append(row)
    things = Counter(name for name, _ in groups)
    for (name, what), same in groups.items():
        nodes = list(dict.fromkeys(row.node for row in same if row.node))
        where = count_text(len(nodes), "node") if len(nodes) > 1 else "".join(nodes)
        told = (where, "" if nodes and things[name] == 1 else what, values_text([row.value for row in same]))
        yield OK, name, ": ".join(word for word in told if word)


def values_text(values: Sequence[str]) -> str:
    """Return the values that a check found on several nodes as one text: "120 to 310 GB free" if only a number differs;
    otherwise the first few of them."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) == 1:
        return distinct[0]
    parts = [_NUMBER.fullmatch(value) for value in distinct]
    found = [part.groups() for part in parts if part is not None]
    if len(found) == len(distinct) and len({(before, after) for before, _, after in found}) == 1:
        numbers = sorted((number for _, number, _ in found), key=lambda number: float(number.replace(",", "")))
        return f"{found[0][0]}{numbers[0]} to {numbers[-1]}{found[0][2]}"
    more = "; …" if len(distinct) > _SHOWN_VALUES else ""
    return "; ".join(distinct[:_SHOWN_VALUES]) + more


def summary_line(found: CheckResults) -> str:
    """Return the line that sums up the results of a check: "node3: bad; 23 rows: 21 ok, 1 warning, 1 bad (1.4 s on 4
    nodes)"."""
    counts = {verdict: sum(row.verdict == verdict for row in found.rows) for verdict in VERDICTS}
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    bad = found.bad_nodes()
    named = f"{_nodes_text(bad)}: bad; " if bad else ""
    took = f" ({duration_text(found.seconds)} on {count_text(len(found.hosts), 'node')})" if found.hosts else ""
    return f"{named}{count_text(len(found.rows), 'row')}{': ' if told else ''}{told}{took}"
