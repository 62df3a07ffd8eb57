"""Event files as bytes, from the published formats: independent of what reads them."""

from __future__ import annotations

import struct
from pathlib import Path


def crc32c(data: bytes) -> int:
    """Bit by bit, masked."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", crc32c(length)) + data + struct.pack("<I", crc32c(data))


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def field(number: int, value: bytes | int | float, wire: int | None = None) -> bytes:
    """bytes: length-delimited; int: a varint; float: of four bytes, or of eight where `wire` is 1."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | (wire or 5)) + struct.pack("<d" if wire == 1 else "<f", value)
    return varint(number << 3) + varint(value)


def event(time: float, step: int, *values: bytes) -> bytes:
    return field(1, time, wire=1) + field(2, step) + field(5, b"".join(field(1, value) for value in values))


def scalar(tag: str, value: float) -> bytes:
    """As torch's and tensorboardX's writers have them."""
    return field(1, tag.encode()) + field(2, value)


def tensor(tag: str, content: bytes, kind: int = 1, plugin: str | None = "scalars", shape: bytes = b"") -> bytes:
    """As TensorFlow 2 and Keras have them; `content`: the fields of the number."""
    metadata = field(9, field(1, field(1, plugin.encode()))) if plugin is not None else b""
    return field(1, tag.encode()) + metadata + field(8, field(1, kind) + field(2, shape) + content)


VERSION = record(field(1, 1e9, wire=1) + field(3, b"brain.Event:2"))
"""What every file begins with."""


def losses(count: int, tag: str = "loss", start: float = 1e9) -> bytes:
    return b"".join(record(event(start + step, step, scalar(tag, 1.0 / (step + 1)))) for step in range(count))


def write_events(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)
