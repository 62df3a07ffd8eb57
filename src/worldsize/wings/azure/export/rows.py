"""What an export says of a key of the job: translated, left out, or impossible."""

from __future__ import annotations

from typing import NamedTuple

TRANSLATED = "translated"
LEFT_OUT = "left out"
IMPOSSIBLE = "impossible"


class ExportRow(NamedTuple):
    """`key` is a YAML path of the job; `verdict` one of the words above; `text` says what became of it, or why."""

    key: str
    verdict: str
    text: str


class ExportedJob(NamedTuple):
    """A job as the keys of Azure's file, in its order, and what there is to say of the keys that differ."""

    tree: dict[str, object]
    rows: tuple[ExportRow, ...]
