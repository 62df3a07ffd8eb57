"""A parser for the scalars of one event. It implements only the required part of the protocol buffers wire format.

The fields are TensorBoard's, from its published event.proto, summary.proto and tensor.proto. Unknown fields are
ignored.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from itertools import islice

from worldsize.common.named_tuple import Any

_MOST_VALUES = 10_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_CONTENT = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
"""The struct formats of one value in a tensor's content, by the number of its type: float, double, int32, int64,
half."""

_LISTS = {(5, 1): "<f", (6, 2): "<d"}
"""The struct formats of the packed lists of float and double, by the number of the field and the type of the tensor."""

_VARINT_LISTS = {(7, 3), (10, 9)}
_SCALARS = b"scalars"
_SIMPLE = re.compile(
    rb"\x09(.{8})(?:\x10([\x80-\xff]{0,9}[\x00-\x7f]))?\x2a([\x00-\x7f])\x0a([\x00-\x7f])\x0a([\x00-\x7f])(.*)\x15(.{4})",
    re.DOTALL,
)
"""The pattern of nearly all events, which take a third of the time this way: one value, which is a plain number and has
a short tag."""

_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_DATA_CLASS_SCALAR = 1

PARSE_ERRORS = (ValueError, IndexError, struct.error)
"""The errors that the functions here raise for bytes that are not an event."""


Event = tuple[float, int, list[tuple[bytes, bool, float]]]
"""The time, the step and the values of an event. A value is its tag, whether it is declared to be a scalar, and its
number. Writers of tensors declare this in the first event of a tag only."""


def parse_event(data: bytes) -> Event:
    """Return the time, the step and the scalar values of one TensorBoard event; without values if it is no summary.
    Raise one of PARSE_ERRORS if the data is not an event."""
    return _simple_event(data) or _any_event(data)


def _simple_event(data: bytes) -> Event | None:
    """Return the TensorBoard event in `data` if it has the usual form that `_SIMPLE` matches, one plain number with a
    short tag; else None."""
    match = _SIMPLE.fullmatch(data)
    if match is None:
        return None
    time, step, summary, value, length, tag, number = match.groups()
    if (summary[0], value[0], length[0]) != (len(tag) + 9, len(tag) + 7, len(tag)):
        return None
    at = _signed(_varint(step, 0)[0]) if step else 0
    return _DOUBLE.unpack(time)[0], at, [(tag, True, _FLOAT.unpack(number)[0])]


def _any_event(data: bytes) -> Event:
    time, step = 0.0, 0
    values: list[tuple[bytes, bool, float]] = []
    for number, wire, value in _fields(data):
        if number == 1 and wire == _FIXED64:
            time = _DOUBLE.unpack(value)[0]
        elif number == 2 and wire == _VARINT:
            step = _signed(value)
        elif number == 5 and wire == _BYTES:
            summary = (each for field, kind, each in _fields(value) if field == 1 and kind == _BYTES)
            values += filter(None, map(_value, islice(summary, _MOST_VALUES)))
    return time, step, values


def _value(data: bytes) -> tuple[bytes, bool, float] | None:
    """Return the tag, whether it is declared to be a scalar, and the number of one value of a TensorBoard summary; None
    if it is no number, or is declared to be something else than a scalar."""
    tag, plugin, simple, tensor = b"", b"", None, None
    for number, wire, value in _fields(data):
        if number == 1 and wire == _BYTES:
            tag = value
        elif number == 2 and wire == _FIXED32:
            simple = _FLOAT.unpack(value)[0]
        elif number == 8 and wire == _BYTES:
            tensor = value
        elif number == 9 and wire == _BYTES:
            plugin = _plugin(value)
    if simple is not None:
        return tag, True, simple
    found = _single_number(tensor) if tensor is not None and plugin in (b"", _SCALARS) else None
    return (tag, plugin == _SCALARS, found) if found is not None else None


def _plugin(data: bytes) -> bytes:
    """Return the name of the TensorBoard plugin that displays the values of a tag, from the tag's metadata `data`. The
    name is "scalars" also if the data class is scalar."""
    plugin = b""
    for number, wire, value in _fields(data):
        if number == 1 and wire == _BYTES:
            plugin = next((name for field, kind, name in _fields(value) if field == 1 and kind == _BYTES), b"")
        elif number == 4 and wire == _VARINT and value == _DATA_CLASS_SCALAR:
            return _SCALARS
    return plugin


def _single_number(data: bytes) -> float | None:
    """Return the number of a tensor with one element, from its protocol buffer `data`; None for any other tensor."""
    kind, found = 0, None
    for number, wire, value in _fields(data):
        if number == 1 and wire == _VARINT:
            kind = value
        elif number == 2 and wire == _BYTES and _elements(value) != 1:
            return None
        elif number == 4 and wire == _BYTES:
            found = _unpacked(_CONTENT.get(kind), value)
        elif wire in (_BYTES, _FIXED32, _FIXED64) and (number, kind) in _LISTS:
            found = _unpacked(_LISTS[number, kind], value)
        elif (number, kind) in _VARINT_LISTS:
            found = float(_signed(value if wire == _VARINT else _varint(value, 0)[0]))
    return found


def _unpacked(form: str | None, value: bytes) -> float | None:
    return float(struct.unpack(form, value)[0]) if form and len(value) == struct.calcsize(form) else None


def _elements(shape: bytes) -> int:
    """Return the number of elements of a tensor with this shape (a protocol buffer), but at most 2. It is 1 for a
    scalar, whose shape has no dimensions."""
    product = 1
    for number, wire, dimension in _fields(shape):
        if number == 2 and wire == _BYTES:
            product *= min(2, next((size for field, kind, size in _fields(dimension) if (field, kind) == (1, 0)), 0))
    return min(product, 2)


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, the wire type and the value of each field of a protocol buffer. The value is an int or bytes.
    Raise ValueError if a field extends beyond the end, or has no valid number or type."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        at += 1
        if key > 127:
            key, at = _varint(data, at - 1)
        wire = key & 7
        if key < 8:
            raise ValueError("no field has the number 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, wire, value
            continue
        if wire == _BYTES:
            length, at = _varint(data, at)
        else:
            length = _length_of(wire)
        if length > end - at:
            raise ValueError("a field is cut")
        yield key >> 3, wire, data[at : at + length]
        at += length


def _length_of(wire: int) -> int:
    if wire == _FIXED32:
        return 4
    if wire == _FIXED64:
        return 8
    raise ValueError("a field of no known type")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the variable-length integer at position `at` of a protocol buffer, which has at most ten bytes, and the
    position of its end. Raise ValueError if it is longer."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    value, shift = byte & 127, 7
    while byte > 127:
        if shift > 63:
            raise ValueError("a number is too long")
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        shift += 7
    return value & 0xFFFFFFFFFFFFFFFF, at + 1


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
