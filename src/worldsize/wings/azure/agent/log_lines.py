"""The lines in a node's log that contain its files. The log is the only connection from the node to the client.

```
[3] epoch 1: loss 0.52  #120+18.x7Qw+a9Z          a line of rank 3's log: 18 bytes from byte 120 on, and a line end
worldsize> {"file":"attempt-0/events/node-0000.jsonl","version":1764224000123,"at":0,"text":"…"} #97.Ab3dE/9x
```

A printable line of a rank's log has the first form. Everything else is marked and is JSON in ASCII: `text`, or `data`
in base64 if the bytes are not text. `whole` is the size of the file in bytes, for a file that is replaced as a whole.
`version` is a number that increases whenever a file begins again. The version of a rank's log is in a marked line
before.

A line ends with the length of its content and a code (48 bits of keyed BLAKE2) for the content, its file, version and
position. Therefore only a process with the key can make a line, and no process can make one count twice or elsewhere.
Text that others write into the same log before or after it, without a line end, does no harm. No line is longer than a
pipe accepts in one piece (4096 bytes), so that lines of several processes are not mixed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import re
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Callable, Iterator

from worldsize.common.named_tuple import Any, NamedTuple

try:
    from _blake2 import blake2b  # hashlib would load all of OpenSSL
except ImportError:
    from hashlib import blake2b

MOST_BYTES = 4096
"""The most bytes of a line, with its line end."""

MOST_FILE_BYTES = 8 << 20
"""The most bytes of a file that is replaced as a whole."""

_MARK = b"worldsize> "
_PIECE = 2700
_QUOTED_PIECE = 1800
_MOST_ENCODED = 3700
_MOST_TEXT = 3900
_CODE_BYTES = 6
_LARGEST = 10**15
_MOST_PATH = 100
_END = rb" #(?:(\d{1,15})\+)?(\d{1,4})\.([A-Za-z0-9+/]{8})\r?$"
_LONGEST_END = 40
_RANK = rb"\[(\d{1,8})\] $"
_LONGEST_RANK = 11
_BOM = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """A piece of a file, from its byte `at` on. `file` is its path below the run's directory. `whole` is the size of
    the file in bytes if it is replaced as a whole, else None."""

    file: str
    version: int
    at: int
    data: bytes
    whole: int | None = None


class LogLines:
    """Writer and parser of the lines that are authenticated with `key`."""

    def __init__(self, key: bytes) -> None:
        self._key: bytes = blake2b(key).digest()

    def marked_lines(self, piece: Piece) -> Iterator[bytes]:
        """Yield the content of a file's `piece` as authenticated, marked lines for the node's log, with their line
        ends; one line if the piece is empty."""
        at = 0
        while at < len(piece.data) or at == 0:
            part = _first_part(piece.data, at)
            yield self._marked_line(piece._replace(at=piece.at + at, data=part))
            at += len(part) or 1

    def rank_lines(self, rank: int, piece: Piece) -> Iterator[bytes]:
        """Yield a `piece` of the log of the rank `rank` as authenticated lines for the node's log, with their line
        ends. Parts that are not printable become marked lines."""
        at, odd = piece.at, b""
        for line in _lines(piece.data):
            if _is_printable(line):
                if odd:
                    yield from self.marked_lines(piece._replace(at=at - len(odd), data=odd))
                    odd = b""
                text = line[:-1]
                code = self._rank_code(piece.file, piece.version, at, text)
                yield b"[%d] %s #%d+%d.%s\n" % (rank, text, at, len(text), code)
            else:
                odd += line
            at += len(line)
        if odd:
            yield from self.marked_lines(piece._replace(at=at - len(odd), data=odd))

    def parse(self, line: bytes, log_of_rank: Callable[[int], tuple[str, int] | None]) -> tuple[bytes, Piece | None]:
        """Split a `line` of a node's log, without its line end, into (the text that other processes have written before
        an authenticated line, the piece of a file in that line). Return the line itself and None if it is not
        authenticated. `log_of_rank` returns the file and the version of a rank's log."""
        found = re.search(_END, line[-_LONGEST_END:])
        if found is None:
            return line, None
        at, length, code = found.groups()
        end = max(0, len(line) - _LONGEST_END) + found.start()
        start = end - int(length)
        if start < 0:
            return line, None
        text = line[start:end]
        if at is None:
            before, piece = line[:start], self._parse_marked(text, code)
        else:
            before, piece = self._parse_rank_line(line[:start], text, int(at), code, log_of_rank)
        return (line, None) if piece is None else (b"" if before == _BOM else before, piece)

    def _marked_line(self, piece: Piece) -> bytes:
        value: dict[str, Any] = {"file": piece.file, "version": piece.version, "at": piece.at}
        if piece.whole is not None:
            value["whole"] = piece.whole
        name, data = _encoded(piece.data)
        text = _MARK + b'%s,"%s":%s}' % (_json(value)[:-1], name, data)
        return b"%s #%d.%s\n" % (text, len(text), self._code(text))

    def _parse_marked(self, text: bytes, code: bytes) -> Piece | None:
        if not text.startswith(_MARK) or self._code(text) != code:
            return None
        try:
            return _piece_of(json.loads(text[len(_MARK) :]))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, Error):
            return None

    def _parse_rank_line(
        self, before: bytes, text: bytes, at: int, code: bytes, log_of_rank: Callable[[int], tuple[str, int] | None]
    ) -> tuple[bytes, Piece | None]:
        found = re.search(_RANK, before[-_LONGEST_RANK:])
        log = log_of_rank(int(found.group(1))) if found else None
        if found is None or log is None or self._rank_code(*log, at, text) != code:
            return before, None
        return before[: len(before) - len(found.group())], Piece(*log, at, text + b"\n")

    def _rank_code(self, file: str, version: int, at: int, text: bytes) -> bytes:
        return self._code(b"%s %d %d %s" % (file.encode(), version, at, text))

    def _code(self, text: bytes) -> bytes:
        return b2a_base64(blake2b(text, key=self._key, digest_size=_CODE_BYTES).digest(), newline=False)


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of `data` with their line ends. Only a line feed ends a line."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def _is_printable(line: bytes) -> bool:
    """Return whether a line of a rank's log can be part of a text log unchanged, with any software that handles it.
    False for one without a line end, one that is too long, or one that is not printable UTF-8."""
    if len(line) > _MOST_TEXT or not line.endswith(b"\n"):
        return False
    try:
        text = line[:-1].decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() or text.replace("\t", "").replace("\x1b", "").isprintable()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _first_part(data: bytes, at: int) -> bytes:
    """Return as many bytes of `data` from `at` on as one marked line of the node's log can contain: whole lines if
    possible, and of a size that fits as text if possible."""
    parts = []
    for most in (_PIECE, _QUOTED_PIECE):
        part = data[at : at + most]
        parts.append((len(part) == most and part[: part.rfind(b"\n") + 1]) or part)
    return parts[0] if _text(parts[0]) or not _text(parts[1]) else parts[1]


def _text(data: bytes) -> bytes:
    """Return the bytes `data` as a JSON string for a marked line; b"" if they are not UTF-8, or too long when
    escaped."""
    try:
        text = _json(data.decode())
    except UnicodeDecodeError:
        return b""
    return text if len(text) <= _MOST_ENCODED else b""


def _encoded(data: bytes) -> tuple[bytes, bytes]:
    """Return the key under which a marked line contains the bytes `data`, `text` or `data` (base64), and its value as
    JSON."""
    text = _text(data)
    return (b"text", text) if text else (b"data", b'"%s"' % b2a_base64(data, newline=False))


def _piece_of(value: Any) -> Piece:
    """Return the piece of a file that the JSON value of a marked line describes. Raise one of the errors that
    `_parse_marked` catches for any other value."""
    text, whole = value.get("text"), value.get("whole")
    data = text.encode() if isinstance(text, str) else a2b_base64(value["data"])
    file, numbers = value["file"], (value["version"], value["at"], 0 if whole is None else whole)
    if not isinstance(file, str) or len(file) > _MOST_PATH or not all(map(_is_count, numbers)):
        raise ValueError("not a piece of a file")
    if whole is not None and not value["at"] + len(data) <= whole <= MOST_FILE_BYTES:
        raise ValueError("a piece of so small a file")
    return Piece(file, value["version"], value["at"], data, whole)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST
