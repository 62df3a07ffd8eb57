"""What the client says of the job (`NodeContext.asked`), by the kinds of its values: None where it says nothing, or
something of another kind.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 10**9


def asked_number(asked: Mapping[str, Any], key: str) -> int | None:
    """Return a count: 0 to a thousand million."""
    value = asked.get(key)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def asked_text(asked: Mapping[str, Any], key: str) -> str | None:
    """Return a text that is not empty."""
    value = asked.get(key)
    return value if isinstance(value, str) and value else None


def asked_texts(asked: Mapping[str, Any], key: str) -> Sequence[str]:
    """Return the texts of a list, each once, in their order."""
    value = asked.get(key)
    found = [each for each in value if isinstance(each, str) and each] if isinstance(value, (list, tuple)) else []
    return tuple(dict.fromkeys(found))


def asked_paths(asked: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the pairs (key, path) of `paths`."""
    value = asked.get("paths")
    pairs = value if isinstance(value, (list, tuple)) else ()
    found = [tuple(each) for each in pairs if isinstance(each, (list, tuple)) and len(each) == 2]
    return tuple((key, path) for key, path in found if isinstance(key, str) and isinstance(path, str) and path)
