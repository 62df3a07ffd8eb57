"""CRC-32C (Castagnoli), masked as in TensorFlow's records. The standard library has no CRC-32C."""

from __future__ import annotations

import struct

_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8

_by_byte: list[int] = []
_by_pair: list[int] = []
"""The remainders of all pairs of bytes, which halve the number of steps, and take 10 ms at the first use."""


def masked_crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum of `data`, masked as in TensorFlow's records. This takes about 25 ns for each
    byte."""
    if not _by_pair:
        _make_tables()
    pairs = _by_pair
    crc = 0xFFFFFFFF
    for pair in struct.unpack_from(f"<{len(data) // 2}H", data):
        crc = pairs[(crc ^ pair) & 0xFFFF] ^ crc >> 16
    if len(data) & 1:
        crc = _by_byte[(crc ^ data[-1]) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _make_tables() -> None:
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (_POLYNOMIAL if remainder & 1 else 0)
        _by_byte.append(remainder)
    low = [(_by_byte[byte] & 0xFF, _by_byte[byte] >> 8) for byte in range(256)]
    _by_pair.extend(_by_byte[first ^ second] ^ rest for second in range(256) for first, rest in low)
