"""The rows of an export: whether a key of the job is translated, left out, or impossible."""

from __future__ import annotations

from typing import NamedTuple

TRANSLATED = "translated"
LEFT_OUT = "left out"
IMPOSSIBLE = "impossible"


class ExportRow(NamedTuple):
    """The result for one key. `key` is a YAML path of the job, `verdict` one of the words above, and `text` the
    replacement or the reason."""

    key: str
    verdict: str
    text: str


class ExportedJob(NamedTuple):
    """A job as the keys of Azure's file, in its order, with rows about the keys that differ."""

    tree: dict[str, object]
    rows: tuple[ExportRow, ...]
