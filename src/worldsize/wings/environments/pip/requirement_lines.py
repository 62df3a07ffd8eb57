"""The lines of a requirements file, as pip and uv both take them. What they take for different lines is refused."""

from __future__ import annotations

import codecs
import re

from worldsize.common.atomic_files import printable_text, read_file
from worldsize.errors import UsageError

_COMMENT = re.compile(r"(^|\s)#.*$")
_ONLY_COMMENT = re.compile(r"\s*#")
_OTHER_ENDS = re.compile("[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CODING = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_PLAIN = frozenset((b"utf-8", b"utf8", b"ascii", b"us-ascii"))
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Longer marks before those that they begin with."""


def lines_of(path: str) -> list[str]:
    """What a file says, line by line: those that end in a backslash go on, comments are left out. OSError; UsageError
    as `read_lines`."""
    return [text for text in map(without_comment, read_lines(path)) if text]


def read_lines(path: str) -> list[str]:
    """Its lines, with those that end in a backslash joined to the next. OSError; UsageError, with the file and the
    line, for what pip would read otherwise than uv."""
    lines = _decode(read_file(path), path).replace("\r\n", "\n").split("\n")
    found: list[str] = []
    goes_on = False
    for number, line in enumerate(lines, 1):
        _refuse_ambiguous(line, f"{printable_text(path)}:{number}")
        comment = _ONLY_COMMENT.match(line) is not None
        ends = comment or not line.endswith("\\")
        text = " " + line if comment else line if ends else line.strip("\\")
        if goes_on:
            found[-1] += text
        else:
            found.append(text)
        goes_on = not ends
    return found


def without_comment(line: str) -> str:
    """A line without its comment."""
    return _COMMENT.sub("", line).strip()


def _refuse_ambiguous(line: str, where: str) -> None:
    if _OTHER_ENDS.search(line):
        raise UsageError("another end of a line than a newline: pip and uv read it differently", where, "save it anew")
    if "\0" in line:
        raise UsageError("a null character", where, "save it as UTF-8")
    if line.endswith("\\") and _COMMENT.search(line) and not _ONLY_COMMENT.match(line):
        what = "a comment that ends in a backslash: pip takes the next line for a part of it, and uv does not"
        raise UsageError(what, where, "leave the backslash out")


def _decode(data: bytes, path: str) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace" if encoding != "utf-8" else "surrogateescape")
    for line in data.split(b"\n", 2)[:2]:
        coding = _CODING.match(line)
        if coding and coding[1].lower().replace(b"_", b"-") not in _PLAIN:
            named = coding[1].decode("ascii", "replace")
            raise UsageError(
                f"says that it is in {named}, which uv does not read", printable_text(path), "save it as UTF-8"
            )
    return data.decode("utf-8", "surrogateescape")
