"""The lines of a requirements file, in the form that pip and uv both read. Text that they would split into different
lines is refused."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Collection, Iterable, Iterator

from worldsize.common.atomic_files import printable_text, write_text
from worldsize.errors import UsageError
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.requirement import absolute_requirement
from worldsize.trust.secrets import mask_text
from worldsize.wings.environments.sources import is_project, read_named_file

_DEEPEST = 20
_INCLUDE = re.compile(r"(-r|-c|--requirement|--constraint)[\s=]*(\S.*)")
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
"""Byte order marks and their encodings. Longer marks come before the marks that they begin with."""


def list_lines(lines: Iterable[str], kinds: Collection[str] = ("-r", "-c"), depth: int = 0) -> Iterator[str]:
    """Yield each line of a requirements list without its comment. After a line that includes another list, by one of
    the options `kinds` (-r, -c), yield the lines of that list, with absolute paths. Raise NotFound or UsageError as
    `require_list` and `lines_of` do."""
    for text in filter(None, map(without_comment, lines)):
        yield text
        include = parse_include(text)
        if include and include[0] in kinds and not is_project(include[1]):
            require_list(include[1], depth)
            base = os.path.dirname(include[1])
            inner = (absolute_requirement(each, base) for each in lines_of(include[1]))
            yield from list_lines(inner, kinds, depth + 1)


def require_list(path: str, depth: int) -> None:
    """Raise UsageError if the requirements file `path` is a remote address, or if `depth`, the number of files that
    include each other so far, is too large, as in a loop."""
    if is_remote(path):
        hint = "download it: its content decides what is built"
        raise UsageError(f"requirements are not read from an address: {mask_text(path)}", None, hint)
    if depth > _DEEPEST:
        raise UsageError("requirements files include each other in a loop", printable_text(path))


def parse_include(line: str) -> tuple[str, str] | None:
    """Return the option ("-r" or "-c") and the file of a requirements line that includes another file. None for any
    other line."""
    found = _INCLUDE.fullmatch(line)
    return ("-c" if found[1] in ("-c", "--constraint") else "-r", found[2]) if found else None


def lines_of(path: str) -> list[str]:
    """Return the lines of a requirements file, without comments and empty lines. A line that ends in a backslash is
    joined with the next one. Raise NotFound; UsageError, with the file and the line, for text that pip and uv read
    differently."""
    lines = _decode(read_named_file(path), path).replace("\r\n", "\n").split("\n")
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
    return [text for text in map(without_comment, found) if text]


def without_comment(line: str) -> str:
    """Return a line of a requirements file without its comment and surrounding spaces."""
    return _COMMENT.sub("", line).strip()


def _refuse_ambiguous(line: str, where: str) -> None:
    if _OTHER_ENDS.search(line):
        raise UsageError(
            "a line end other than a newline: pip and uv read it differently", where, "save it with newlines"
        )
    if "\0" in line:
        raise UsageError("a null character", where, "save it as UTF-8")
    if line.endswith("\\") and _COMMENT.search(line) and not _ONLY_COMMENT.match(line):
        what = "a comment that ends in a backslash: pip treats the next line as part of it, and uv does not"
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
                f"declares the encoding {named}, which uv does not read", printable_text(path), "save it as UTF-8"
            )
    return data.decode("utf-8", "surrogateescape")


def write_lines(path: str, lines: Iterable[str]) -> None:
    """Write `lines`, the lines of a requirements file, to the file `path` that only its owner can read. Raise
    OSError."""
    write_text(path, "".join(line + "\n" for line in lines), private=True)
