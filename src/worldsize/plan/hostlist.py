"""Conversion of Slurm's folded node names, `gpu[01-03,7],login1`, to lists and back, without `scontrol`.

`scontrol show hostnames` is absent in containers and on nodes without Slurm's programs. Programs with a fallback for
that then trained N worlds of one. So names are expanded here, or an error is raised.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from worldsize.common.numbers import spans

MAX_NAMES = 65536
"""Maximum number of names that a text may mean. Slurm's own limit of one range (MAX_RANGE in its hostlist.c) is the
same."""

_NO_NUMBER = -1
_LONGEST_NAME = 255
"""Maximum number of characters of a host's name, as in DNS."""

_LITERAL = r"[A-Za-z0-9._-]+"
_RANGE = r"([0-9]{1,18})(?:-([0-9]{1,18}))?"
_NUMBER = r"([0-9]+)"


def expand_hostlist(text: str) -> list[str]:
    """Return the node names that `text`, a folded list such as `gpu[01-03,7],login1`, contains in short form, in the
    order written. Raise ValueError, which states the problem and its position.

    Brackets may be anywhere and several times (`a[1-2]b[3,5]`: the last one counts fastest). Leading zeros are kept.
    """
    text = text.strip()
    if not text:
        return []
    names: list[str] = []
    comma = -1
    while comma < len(text):
        found, comma = _parse_name(text, comma + 1)
        names += found
        _require_few(text, len(names))
    return names


def fold_hostlist(names: Iterable[str]) -> str:
    """Return the node names `names` folded into one short text such as `gpu[01-03,7],login1`, each once, in natural
    order (n2 before n10).

    The last number before the first dot is folded. Raise ValueError for a name that no text can represent.
    """
    groups: dict[tuple[str, str, int], list[int]] = {}
    for prefix, digits, suffix in _split_all(names):
        width = len(digits) if _is_padded(digits) else 0 if digits else _NO_NUMBER
        groups.setdefault((prefix, suffix, width), []).append(int(digits or 0))
    for key in [key for key in groups if key[2] > 0]:
        _join_full_numbers(groups, key)
    return ",".join(
        text for _, text in sorted(_group_text(*key, numbers) for key, numbers in groups.items() if numbers)
    )


def is_node_name(text: str) -> bool:
    """Return whether the text can be one node's name."""
    return len(text) <= _LONGEST_NAME and re.fullmatch(_LITERAL, text) is not None


def _parse_name(text: str, position: int) -> tuple[list[str], int]:
    """Parse one folded name in `text`, such as `gpu[01-03]`, from `position` on (blanks may precede it), and return the
    names in full and the position of its end: a comma, or the end of the text. Raise ValueError if it is malformed."""
    while text[position : position + 1].isspace():
        position += 1
    names, start = [""], position
    while position < len(text) and text[position] != ",":
        literal = re.compile(_LITERAL).match(text, position)
        if literal:
            part, position = [literal.group()], literal.end()
        elif text[position] == "[":
            part, position = _parse_bracket(text, position + 1)
        else:
            raise _hostlist_error(text, position)
        _require_few(text, len(names) * len(part))
        names = [name + each for name in names for each in part]
        if max(map(len, names)) > _LONGEST_NAME:
            raise ValueError(f"{_shorten(text)!r} contains a name of more than {_LONGEST_NAME} characters")
    if position == start:
        raise _hostlist_error(text, position)
    return names, position


def _parse_bracket(text: str, position: int) -> tuple[list[str], int]:
    """Parse the numbers in a bracket of a folded name, `01-03,7]`, from just after the opening bracket on, and return
    them in full as texts, and the position after the closing bracket. Raise ValueError if they are malformed."""
    found: list[str] = []
    while True:
        match = re.compile(_RANGE).match(text, position)
        if not match:
            raise _hostlist_error(text, position)
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first) or (_is_padded(last) and len(last) != len(first)):
            raise _hostlist_error(text, position)
        _require_few(text, len(found) + int(last) - int(first) + 1)
        found.extend(f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
        position = match.end() + 1
        end = text[match.end() : position]
        if end == "]":
            return found, position
        if end != ",":
            raise _hostlist_error(text, match.end())


def _require_few(text: str, count: int) -> None:
    if count > MAX_NAMES:
        raise ValueError(f"{_shorten(text)!r} expands to more than {MAX_NAMES} nodes")


def _group_text(prefix: str, suffix: str, width: int, numbers: list[int]) -> tuple[list[tuple[int, int, str]], str]:
    """Return (sort key, folded text) for node names with the same `prefix` and `suffix` that differ in one number, such
    as `gpu[01-03]`. `width` 0 means without leading zeros; _NO_NUMBER means one name without any number."""
    digits = "" if width == _NO_NUMBER else f"{{:0{width}d}}"
    ranges = [
        digits.format(first) if first == last else f"{digits.format(first)}-{digits.format(last)}"
        for first, last in spans(sorted(numbers))
    ]
    name = prefix + digits.format(min(numbers)) + suffix
    return _natural_key(name), name if len(numbers) == 1 else f"{prefix}[{','.join(ranges)}]{suffix}"


def _split_all(names: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for name in dict.fromkeys(names):
        if not is_node_name(name):
            raise ValueError(f"{_shorten(name)!r} is not a node's name")
        host, dot, domain = name.partition(".")
        pieces = re.split(_NUMBER, host)
        if len(pieces) < 3 or len(pieces[-2]) > 18:
            yield name, "", ""
        else:
            yield "".join(pieces[:-2]), pieces[-2], pieces[-1] + dot + domain


def _join_full_numbers(groups: dict[tuple[str, str, int], list[int]], padded: tuple[str, str, int]) -> None:
    """Move numbers from a group of names without leading zeros to the group `padded`, so that `n08` and `n10` are
    folded together. A number that fills the width looks the same with and without leading zeros."""
    prefix, suffix, width = padded
    plain = groups.get((prefix, suffix, 0), [])
    groups[padded] += [number for number in plain if len(str(number)) == width]
    plain[:] = [number for number in plain if len(str(number)) != width]


def _is_padded(digits: str) -> bool:
    return len(digits) > 1 and digits[0] == "0"


def _natural_key(name: str) -> list[tuple[int, int, str]]:
    return [
        (0, int(piece), piece) if re.fullmatch(_NUMBER, piece) else (1, 0, piece)
        for piece in re.split(_NUMBER, name)
        if piece
    ]


def _hostlist_error(text: str, position: int) -> ValueError:
    return ValueError(f"{_shorten(text)!r} is not a list of nodes (at character {position + 1})")


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
