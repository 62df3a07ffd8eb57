"""Requirements files: their lines, and what they include."""

from __future__ import annotations

import re

_INCLUDE = re.compile(r"(-r|-c|--requirement|--constraint)[\s=]*(\S.*)")
_COMMENT = re.compile(r"(^|\s)#.*$")


def lines_of(path: str) -> list[str]:
    """What a file says, line by line: those that end in a backslash go on, comments are left out. OSError."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape") as file:
        said = file.read().replace("\\\n", " ").split("\n")
    return [text for text in map(bare, said) if text]


def bare(line: str) -> str:
    """A line without its comment."""
    return _COMMENT.sub("", line).strip()


def included(line: str) -> tuple[str, str] | None:
    """Of a line that includes another file: "-r" or "-c", and the file."""
    found = _INCLUDE.fullmatch(line)
    return ("-c" if found[1] in ("-c", "--constraint") else "-r", found[2]) if found else None
