"""The replacement of paths in the files of an environment that was moved: which files contain the old path, and their
new content. Pure functions.

A text file accepts a path of any length. In a binary file a path ends at a NUL, and what follows must stay at its
position. A longer path fits only where there is room, as conda leaves it in the files that it installs; elsewhere the
file is not changed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple

TEXT, BINARY = "text", "binary"
_ENDS = rb"(?![\w.+-])"
_LONGEST_SHEBANG = 127
"""The longest shebang line in bytes: Linux before 5.1 truncates longer ones."""


class PrefixFile(NamedTuple):
    """A file that contains old paths. `kind` is TEXT or BINARY. `room` is the number of NUL bytes after each string of
    a binary file that a longer path may use."""

    path: str
    kind: str
    room: int = 0


def prefix_file_kind(data: bytes, old: bytes) -> str | None:
    """Return the kind (TEXT or BINARY) of a file whose content is `data` if it contains the path `old` or a path below
    it; None if it does not."""
    if old not in data or not re.search(re.escape(old) + _ENDS, data):
        return None
    return BINARY if b"\0" in data else TEXT


def with_new_prefix(data: bytes, kind: str, room: int, old: bytes, new: bytes) -> bytes | None:
    """Return `data`, the content of a file of an environment, with the path `old` replaced by `new`; None if the file
    is binary (`kind`) and has too little room for the new path. `room` is the number of NUL bytes after each string
    that may be used."""
    if kind == TEXT:
        return _with_short_shebang(re.sub(re.escape(old) + _ENDS, lambda _: new, data))
    return _binary_with_new_prefix(data, room, old, new)


def _binary_with_new_prefix(data: bytes, room: int, old: bytes, new: bytes) -> bytes | None:
    parts = []
    end = 0
    for found in re.finditer(re.escape(old) + _ENDS + rb"[^\0]*", data):
        if found.start() < end:
            continue
        count = len(re.findall(re.escape(old) + _ENDS, found[0]))
        text = re.sub(re.escape(old) + _ENDS, lambda _: new, found[0])
        start, stop = found.span()
        free = _free_bytes(data, stop, room * count)
        if len(text) > stop - start + free:
            return None
        parts += [data[end:start], text, b"\0" * (stop - start - len(text))]
        end = stop if len(text) <= stop - start else start + len(text)
    return b"".join([*parts, data[end:]])


def _free_bytes(data: bytes, stop: int, room: int) -> int:
    """Count the NUL bytes of `data` that follow the string that ends at `stop`, without the one that terminates the
    string, up to `room`."""
    count = 0
    while count < room and data[stop + count : stop + count + 2] == b"\0\0":
        count += 1
    return count


def _with_short_shebang(data: bytes) -> bytes:
    """Return the script `data` with a shebang line that the kernel accepts. If the line with the path of the Python
    interpreter is too long, the shell starts the interpreter, in the form that pip writes. Other files are returned
    unchanged."""
    if not data.startswith(b"#!"):
        return data
    first, _, rest = data.partition(b"\n")
    words = first[2:].strip().split(b" ", 1)
    if len(first) <= _LONGEST_SHEBANG or not words[0].rpartition(b"/")[2].startswith(b"python"):
        return data
    more = b" " + words[1] if len(words) > 1 else b""
    return b"#!/bin/sh\n'''exec' \"%s\"%s \"$0\" \"$@\"\n' '''\n" % (words[0], more) + rest
