"""Numbers that users and programs write as text.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_DIGITS = 15
"""The maximum number of digits of a number. Longer numbers are never meant, and Python refuses to read one of more than
4300 digits."""


def parse_digits(text: str | None) -> int | None:
    """Return the number that ASCII digits spell, at most MAX_DIGITS of them; None for any other text. `str.isdigit`
    accepts "²" as a digit, and `int` accepts "1_0", "+1" and the digits of every script."""
    if not text or len(text) > MAX_DIGITS or not text.isascii() or not text.isdigit():
        return None
    return int(text)


def spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield (first, last) for each sequence of consecutive numbers in `numbers`, which must be in ascending order: (0,
    2) and (5, 5) for 0, 1, 2, 5."""
    start = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield numbers[start], number
            start = i + 1


def span_words(numbers: Sequence[int]) -> list[str]:
    """Return the sequences of consecutive numbers in `numbers`, which must be in ascending order, as texts: `0-2` and
    `5` for 0, 1, 2, 5."""
    return [str(first) if first == last else f"{first}-{last}" for first, last in spans(numbers)]


def ranks_text(ranks: Sequence[int]) -> str:
    """Return the numbers of ranks in words: `rank 3`, `ranks 0-2,5`; "" for none. `ranks` must be in ascending
    order."""
    return _counted_text("rank", ranks)


def nodes_text(nodes: Sequence[int]) -> str:
    """Return the numbers of nodes in words: `node 3`, `nodes 0-2,5`; "" for none. `nodes` must be in ascending
    order."""
    return _counted_text("node", nodes)


def _counted_text(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun}{'' if len(numbers) == 1 else 's'} {','.join(span_words(numbers))}" if numbers else ""


def bytes_text(count: float) -> str:
    """Return a number of bytes as text such as `1.5 kB`, in powers of 1000, with three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def size_text(count: float) -> str:
    """Return the size of a memory or of a file in words such as `64 MiB`, `1.5 GiB`: in powers of 1024, with three
    digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB" if count < 999.5 else f"{count:.0f} TiB"
