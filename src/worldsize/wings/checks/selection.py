"""Selection of rows by `--only` and `--skip`."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.errors import UsageError
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.wings.checks.agent.selection import row_ids

SCRIPT_IDS = (
    "script.not_distributed", "script.device", "script.address", "script.sampler", "script.set_epoch",
    "script.saving", "script.processes", "script.workers", "script.downloads",
)  # fmt: skip
"""The rows about the script, which is read on this machine and not on nodes."""


def all_ids() -> tuple[str, ...]:
    """Return the ids of all rows of `worldsize check`, those about the script and those about nodes, in the order of
    the checks."""
    return (*SCRIPT_IDS, *row_ids())


def words() -> list[str]:
    """Return the words that the options `--only` and `--skip` of `worldsize check` accept: the ids of rows, and the
    parts before their dots."""
    found = dict.fromkeys(name for each in all_ids() for name in (each.partition(".")[0], each))
    return list(found)


def selected_ids(only: Sequence[str], skip: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of the rows that `--only` and `--skip` of `worldsize check` select, in the order of the checks.
    Without `only`, all rows are selected. Raise UsageError if a word names no row, or if no row is left."""
    wanted = _ids_of(only, "--only") if only else set(all_ids())
    left_out = _ids_of(skip, "--skip")
    found = tuple(name for name in all_ids() if name in wanted and name not in left_out)
    if not found:
        raise UsageError("no row is left to check", "--skip", "skip less, or ask for other rows")
    return found


def _ids_of(given: Sequence[str], where: str) -> set[str]:
    """Return the ids of the rows that the words of the option `where` name. A word may contain several names, separated
    by commas. Raise UsageError if one names no row."""
    found: set[str] = set()
    for word in (part.strip() for text in given for part in text.split(",")):
        named = [name for name in all_ids() if word in (name, name.partition(".")[0])]
        if not named:
            groups = "there are: " + ", ".join(dict.fromkeys(name.partition(".")[0] for name in all_ids()))
            raise UsageError(f"there is no row {word!r:.60}", where, did_you_mean(word, words()) or groups)
        found.update(named)
    return found
