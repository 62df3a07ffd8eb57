"""Readers for the values that the client sends about the job (`NodeContext.asked`), one for each type. A value that is
missing or has another type counts as absent: None, or an empty sequence.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 10**9


def asked_number(asked: Mapping[str, Any], key: str) -> int | None:
    """Return the value of `key` in `asked`, the values that the client sent about the job, if it is an integer from 0
    to 10^9; None otherwise."""
    value = asked.get(key)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def asked_text(asked: Mapping[str, Any], key: str) -> str | None:
    """Return the value of `key` in `asked`, the values that the client sent about the job, if it is a text that is not
    empty; None otherwise."""
    value = asked.get(key)
    return value if isinstance(value, str) and value else None


def asked_texts(asked: Mapping[str, Any], key: str) -> Sequence[str]:
    """Return the non-empty texts in the list at `key` in `asked`, the values that the client sent about the job,
    without duplicates, in their order. Return an empty tuple if there is no list."""
    value = asked.get(key)
    found = [each for each in value if isinstance(each, str) and each] if isinstance(value, (list, tuple)) else []
    return tuple(dict.fromkeys(found))


def asked_paths(asked: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the valid pairs (key, path) in the list `paths` of `asked`, the values that the client sent about the job.
    The paths are the job's inputs and outputs."""
    value = asked.get("paths")
    pairs = value if isinstance(value, (list, tuple)) else ()
    found = [tuple(each) for each in pairs if isinstance(each, (list, tuple)) and len(each) == 2]
    return tuple((key, path) for key, path in found if isinstance(key, str) and isinstance(path, str) and path)
