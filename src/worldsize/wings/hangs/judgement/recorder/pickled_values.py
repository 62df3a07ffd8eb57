"""Plain values from a pickle that any process may have written: dicts, lists, tuples, texts, numbers, None.

Opcodes that make objects of classes are refused, and nothing is ever called. Python's own unpickler is not used, even
with a `find_class` that raises: a memo index of four bytes makes the C one allocate gigabytes, and a tuple that is
nested a million times overflows the stack of C once it is hashed as a key. So keys are texts and numbers, and the memo
is a dict. PyTorch writes dumps of its Flight Recorder in protocol 2 (`torch/csrc/jit/serialization/pickler.cpp`), one
opcode for each value. Python's own protocols 2 to 5 can also be read, to the extent that they write plain values.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from worldsize.common.named_tuple import Any

MOST_BYTES = 64 * 2**20
_MOST_DEPTH = 64
"""The maximum number of containers that are open at the same time."""
_LONGEST_NUMBER = 16
"""The maximum number of bytes of a whole number."""


class NotReadable(Exception):
    """The error for data that holds no plain values, or too many. Its text is the reason, in words that can follow
    "it"."""


def read_pickle(data: bytes) -> Any:
    """Return the value that `data` is a pickle of. Raise NotReadable for anything else."""
    if len(data) > MOST_BYTES:
        raise NotReadable(f"is longer than {MOST_BYTES >> 20} MiB")
    try:
        return _Reader(data).value()
    except (IndexError, KeyError, TypeError, struct.error, UnicodeDecodeError, ValueError, OverflowError):
        raise NotReadable("is damaged") from None
    except (MemoryError, RecursionError):
        raise NotReadable("is nested too deep, or too large") from None


class _Reader:
    """A pickle and the reading position in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def value(self) -> Any:
        data, steps = self._data, _STEPS
        while True:
            code = data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._stack.pop()
            step = steps.get(code)
            if step is None:
                raise NotReadable("contains more than plain values")
            step(self)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise IndexError
        found = self._data[self._at : end]
        self._at = end
        return found

    def number(self, form: str, size: int) -> Any:
        return struct.unpack(form, self.take(size))[0]

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def text(self, form: str, size: int) -> None:
        self._stack.append(self.take(self.number(form, size)).decode("utf-8", "replace"))

    def long(self) -> None:
        size = self.take(1)[0]
        if size > _LONGEST_NUMBER:
            raise NotReadable("contains a number that is too long")
        self._stack.append(int.from_bytes(self.take(size), "little", signed=True))

    def mark(self) -> None:
        if len(self._marks) >= _MOST_DEPTH:
            raise NotReadable("is nested too deep")
        self._marks.append(len(self._stack))

    def since_mark(self) -> list[Any]:
        start = self._marks.pop()
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def tuple(self, count: int) -> None:
        if len(self._stack) < count:
            raise IndexError
        found = tuple(self._stack[-count:])
        del self._stack[-count:]
        self._stack.append(found)

    def append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise TypeError
        target.extend(values)

    def set(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise TypeError
        for key, value in zip(values[::2], values[1::2]):
            if type(key) not in (str, int, float, bool):
                raise TypeError
            target[key] = value

    def pair(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self.set([key, value])

    def one(self) -> None:
        value = self._stack.pop()
        self.append([value])

    def put(self, index: int) -> None:
        self._memo[index] = self._stack[-1]

    def get(self, index: int) -> None:
        self._stack.append(self._memo[index])


_STEPS: dict[int, Callable[[_Reader], object]] = {
    0x80: lambda reader: reader.take(1),  # PROTO
    0x95: lambda reader: reader.take(8),  # FRAME
    0x28: _Reader.mark,
    0x4E: lambda reader: reader.push(None),
    0x88: lambda reader: reader.push(True),
    0x89: lambda reader: reader.push(False),
    0x4B: lambda reader: reader.push(reader.take(1)[0]),  # BININT1
    0x4D: lambda reader: reader.push(reader.number("<H", 2)),  # BININT2
    0x4A: lambda reader: reader.push(reader.number("<i", 4)),  # BININT
    0x8A: _Reader.long,  # LONG1
    0x47: lambda reader: reader.push(reader.number(">d", 8)),  # BINFLOAT
    0x58: lambda reader: reader.text("<I", 4),  # BINUNICODE
    0x8C: lambda reader: reader.text("<B", 1),  # SHORT_BINUNICODE
    0x8D: lambda reader: reader.text("<Q", 8),  # BINUNICODE8
    0x5D: lambda reader: reader.push([]),
    0x7D: lambda reader: reader.push({}),
    0x29: lambda reader: reader.push(()),
    0x74: lambda reader: reader.push(tuple(reader.since_mark())),  # TUPLE
    0x85: lambda reader: reader.tuple(1),
    0x86: lambda reader: reader.tuple(2),
    0x87: lambda reader: reader.tuple(3),
    0x61: _Reader.one,  # APPEND
    0x65: lambda reader: reader.append(reader.since_mark()),  # APPENDS
    0x73: _Reader.pair,  # SETITEM
    0x75: lambda reader: reader.set(reader.since_mark()),  # SETITEMS
    0x71: lambda reader: reader.put(reader.take(1)[0]),  # BINPUT
    0x72: lambda reader: reader.put(reader.number("<I", 4)),  # LONG_BINPUT
    0x94: lambda reader: reader.put(len(reader._memo)),  # MEMOIZE
    0x68: lambda reader: reader.get(reader.take(1)[0]),  # BINGET
    0x6A: lambda reader: reader.get(reader.number("<I", 4)),  # LONG_BINGET
}
