"""Bytes that a rank wrote → text that is safe to show."""

from __future__ import annotations

MORE = "\udc80"
"""Ends a piece of a line that goes on in the next piece. Decoded output never holds a lone surrogate."""

BOUND = 64 * 1024
"""Bytes above which a line comes in pieces."""

_CONTROLS = bytes(code for code in (*range(32), 127) if code not in (9, 10))
_HARMFUL = (
    r"\x1b\[(?![0-9;:]*m)[0-?]*[ -/]*[@-~]"  # CSI: cursor, erase, modes, queries; colours (SGR) stay
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC, DCS, …: titles, clipboard, links
    r"|\x1b(?!\[)[ -/]*[0-~]"
    r"|\x1b(?!\[[0-9;:]*m)"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]"
)


def to_text(data: bytes) -> str:
    """Decoded as UTF-8, a bad byte as U+FFFD, without what could drive a terminal.

    Newlines, tabs and colours (SGR) are kept; other escape sequences and control characters are taken out.
    """
    text = data.decode("utf-8", "replace")
    if b"\xc2" not in data and len(data.translate(None, _CONTROLS)) == len(data):
        return text
    import re

    return re.sub(_HARMFUL, "", text)


def last_state(line: bytes) -> bytes:
    """What is left to see of a line that was rewritten with carriage returns (a progress bar)."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def cut_long(line: bytes) -> tuple[list[str], bytes]:
    """The leading pieces of a line longer than `BOUND`, each ended by `MORE`, and the bytes that remain.

    Where the cuts fall depends on the line alone; none falls inside a UTF-8 character.
    """
    pieces = []
    start = 0
    while len(line) - start > BOUND:
        cut = start + BOUND
        while cut > start + BOUND - 3 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        pieces.append(to_text(line[start:cut]) + MORE)
        start = cut
    return pieces, line[start:]


def split_lines(block: bytes) -> list[str]:
    """The lines of a block that ends where a line ends (without that newline)."""
    if b"\r" in block:
        block = b"\n".join([last_state(line) for line in block.split(b"\n")])
    lines = to_text(block).split("\n")
    if len(block) <= BOUND or max(map(len, lines)) * 4 <= BOUND:
        return lines
    lines = []
    for line in block.split(b"\n"):
        pieces, rest = cut_long(line)
        lines += pieces
        lines.append(to_text(rest))
    return lines


def compact(numbers: tuple[int, ...] | list[int]) -> str:
    """Ascending numbers, three or more in a row as a range: `0-2,5`."""
    words: list[str] = []
    first = 0
    for i in range(len(numbers)):
        if i + 1 < len(numbers) and numbers[i + 1] == numbers[i] + 1:
            continue
        if i - first >= 2:
            words.append("%d-%d" % (numbers[first], numbers[i]))
        else:
            words += map(str, numbers[first : i + 1])
        first = i + 1
    return ",".join(words)
