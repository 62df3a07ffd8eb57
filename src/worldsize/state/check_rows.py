"""What a check says: one row for each thing that was looked at, on one node or on all.

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
"""From the best to the worst."""


class CheckRow(NamedTuple):
    """What was found.

    node    the node's label (its host name, where no other node has the same); "" for what is of no single node
    id      the row's name, as `--only` and `--skip` take it: `network.port`
    what    what was looked at, in a few words: "the head's port"
    value   what was seen, with its unit: "refused", "0.2 ms", "7 of 8"
    verdict one of VERDICTS
    hint    what mends it, or why it is not known; "" where there is nothing to say
    """

    node: str
    id: str
    what: str
    value: str
    verdict: str
    hint: str = ""


def row_of(value: Mapping[str, Any]) -> CheckRow:
    """Return the row that a JSON object holds. ValueError where it is none."""
    fields = [value.get(name, "") for name in CheckRow._fields]
    if not all(isinstance(field, str) for field in fields) or value.get("verdict") not in VERDICTS:
        raise ValueError(f"not a row of a check: {value!r:.200}")
    return CheckRow(*fields)


def worst_verdict(rows: Iterable[CheckRow]) -> str:
    """Return the worst verdict of these rows; `ok` where there are none."""
    return max((row.verdict for row in rows), key=VERDICTS.index, default=OK)
