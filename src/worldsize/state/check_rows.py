"""The results of checks: one row for each item that was checked, on one node or on all.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple

OK = "ok"
WARNING = "warning"
BAD = "bad"
UNKNOWN = "unknown"

VERDICTS = (OK, UNKNOWN, WARNING, BAD)
"""The verdicts from the best to the worst."""


class CheckRow(NamedTuple):
    """The result for one item of a check.

    node    the node's label (its host name, where no other node has the same); "" for an item of no single node
    id      the row's name, as `--only` and `--skip` accept it: `network.port`
    what    what was checked, in a few words: "the head's port"
    value   what was found, with its unit: "refused", "0.2 ms", "7 of 8"
    verdict one of VERDICTS
    hint    how to fix it, or why it is not known; "" if there is no hint
    """

    node: str
    id: str
    what: str
    value: str
    verdict: str
    hint: str = ""


def row_of(value: Mapping[str, Any]) -> CheckRow:
    """Return the CheckRow (one row of the table of a node or script check) that a JSON object describes. Raise
    ValueError if the object is not such a row."""
    fields = [value.get(name, "") for name in CheckRow._fields]
    if not all(isinstance(field, str) for field in fields) or value.get("verdict") not in VERDICTS:
        raise ValueError(f"not a row of a check: {value!r:.200}")
    return CheckRow(*fields)


def worst_verdict(rows: Iterable[CheckRow]) -> str:
    """Return the worst verdict of the check `rows`, one of VERDICTS; `ok` if there are none."""
    return max((row.verdict for row in rows), key=VERDICTS.index, default=OK)
