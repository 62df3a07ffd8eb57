"""Conversion of the output of ranks, jobs, runs and servers to text that is safe to show.

Text can drive a terminal by control characters other than newline and tab, by the sequences that ESC begins, and by the
characters that change the direction of text or end a line. They are removed from the output of ranks, except colours.
In other texts they are shown escaped, so that nothing is hidden.
"""

from __future__ import annotations

import re

from worldsize.common.numbers import spans

MORE = "\udc80"
"""Mark at the end of a piece of a line that continues in the next piece. Decoded output never contains a lone
surrogate."""

BOUND = 64 * 1024
"""Maximum number of bytes of a line that is not split into pieces."""

_DIRECTIONS = (0x061C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_TURNING = "".join(map(chr, _DIRECTIONS))
_ESCAPED = {
    **{code: f"\\x{code:02x}" for code in (*range(9), 11, 12, *range(14, 32), 127)},
    **{code: f"\\u{code:04x}" for code in (*range(128, 160), *_DIRECTIONS)},
    10: "\\n",
    13: "\\r",
}
"""Escaped forms of characters, as Python and bash ($'…') read them."""

_CONTROLS = bytes(code for code in (*range(32), 127) if code not in (9, 10))
_HARMFUL = (
    r"\x1b\[(?![0-9;:]*m)[0-?]*[ -/]*[@-~]"  # CSI: cursor, erase, modes, queries; colours (SGR) stay
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # OSC, DCS, …: titles, clipboard, links
    r"|\x1b(?!\[)[ -/]*[0-~]"
    r"|\x1b(?!\[[0-9;:]*m)"
    r"|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
_COLOURS = r"\x1b\[[0-9;:]*m"


def to_text(data: bytes) -> str:
    """Return `data` decoded as UTF-8, an invalid byte as U+FFFD, without characters that could drive a terminal.
    Newlines, tabs and colours (SGR) are kept; other escape sequences and control characters are removed."""
    text = data.decode("utf-8", "replace")
    turning = (b"\xe2" in data or b"\xd8\x9c" in data) and any(character in text for character in _TURNING)
    if not turning and b"\xc2" not in data and len(data.translate(None, _CONTROLS)) == len(data):
        return text
    return re.sub(_HARMFUL, "", text)


def without_colours(text: str) -> str:
    if "\x1b" not in text:
        return text
    return re.sub(_COLOURS, "", text)


def escape(text: str) -> str:
    r"""Return `text` in one line, without characters that drive terminals: `\n` for a newline, `\x1b` for ESC. Tabs
    stay."""
    return text if text.isprintable() else text.translate(_ESCAPED)


def escape_json(text: str) -> str:
    """Return the JSON text `text` with the same value, in which characters that drive a terminal are escaped. JSON
    itself requires this only for the control characters below the blank."""
    return text.translate({code: f"\\u{code:04x}" for code in (*range(127, 160), *_DIRECTIONS)})


def split_message(text: str) -> list[str]:
    """Return the lines of `text`, such as an error message, each escaped. Lines after the first are indented, so that
    none of them looks like a line of worldsize itself, or like its hint."""
    first, *more = [escape(line) for line in text.replace("\r\n", "\n").split("\n")]
    return [first, *(line if _is_indented(line) else "  " + line for line in more)]


def _is_indented(line: str) -> bool:
    return not line or (line.startswith(("  ", "\t")) and not line.lstrip().startswith("→"))


def last_state(line: bytes) -> bytes:
    """Return the part of a log line that is visible after it was rewritten with carriage returns (a progress bar): what
    follows the last of these."""
    line = line.rstrip(b"\r")
    return line[line.rfind(b"\r") + 1 :]


def cut_long(line: bytes) -> tuple[list[str], bytes]:
    """Split a log line that is longer than `BOUND` bytes, and return its leading pieces as text, each ended by `MORE`,
    and the remaining bytes.

    The positions of the cuts depend on the line alone; none is inside a UTF-8 character.
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
    """Convert `block`, the bytes of whole log lines without the last newline, to lines of text that is safe to show. Of
    a line rewritten with carriage returns only the last state is kept; lines longer than `BOUND` are returned in
    pieces."""
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


def format_ranges(numbers: tuple[int, ...] | list[int]) -> str:
    """Return ascending numbers as text, three or more consecutive ones as a range: `0-2,5`."""
    words: list[str] = []
    for first, last in spans(numbers):
        words += [f"{first}-{last}"] if last - first >= 2 else map(str, range(first, last + 1))
    return ",".join(words)
