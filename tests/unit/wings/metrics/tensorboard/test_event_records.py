from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from event_file_bytes import crc32c, record, varint, write_events
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics.tensorboard import event_records
from worldsize.wings.metrics.tensorboard.crc32c import masked_crc32c
from worldsize.wings.metrics.tensorboard.event_records import DamagedFile, EventRecords


def read(path: str, checked: int = 1 << 20) -> tuple[list[bytes], bool]:
    """The records, and whether a damaged one ended them."""
    found: list[bytes] = []
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for each in EventRecords(descriptor, checked):
            found.append(each)
    except DamagedFile:
        return found, True
    finally:
        os.close(descriptor)
    return found, False


def test_the_checksum_is_that_of_the_standard() -> None:
    crc = 0xE3069283  # of "123456789", as catalogues of checksums list it
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@given(st.binary(max_size=100))
def test_the_checksum_of_any_bytes(data: bytes) -> None:
    assert masked_crc32c(data) == crc32c(data)


def test_records_of_all_sizes(tmp_path: Path) -> None:
    data = [b"", b"a", b"b" * 1000, bytes(range(256)) * 20]
    path = write_events(tmp_path / "f", b"".join(map(record, data)))
    assert read(path) == (data, False)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 12, 15, 16])
def test_a_record_that_is_still_being_written_is_not_there_yet(tmp_path: Path, cut: int) -> None:
    path = write_events(tmp_path / "f", (record(b"whole") + record(b"half"))[:-cut])
    assert read(path) == ([b"whole"], False)


def test_a_damaged_length_ends_the_file(tmp_path: Path) -> None:
    bad = bytearray(record(b"second"))
    bad[0] ^= 1
    path = write_events(tmp_path / "f", record(b"first") + bytes(bad) + record(b"third"))
    assert read(path) == ([b"first"], True)


def test_damaged_data_ends_the_file_near_its_end_only(tmp_path: Path) -> None:
    bad = bytearray(record(b"second"))
    bad[14] ^= 1
    path = write_events(tmp_path / "f", record(b"first") + bytes(bad) + record(b"third"))
    assert read(path) == ([b"first"], True)
    assert read(path, checked=len(record(b"third"))) == ([b"first", b"sebond", b"third"], False)


def test_a_gap_of_zeros_is_damage(tmp_path: Path) -> None:
    path = write_events(tmp_path / "f", record(b"first") + bytes(100))
    assert read(path) == ([b"first"], True)


def test_large_records_are_skipped_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_records, "MOST_READ", 100)
    monkeypatch.setattr(event_records, "_CHUNK", 64)
    path = write_events(tmp_path / "f", record(b"a") + record(bytes(1000)) + record(b"b") + record(bytes(1000))[:-1])
    descriptor = os.open(path, os.O_RDONLY)
    records = EventRecords(descriptor)
    assert list(records) == [b"a", b"b"] and records.bytes_read < 300
    os.close(descriptor)


def test_a_length_beyond_the_file_ends_it(tmp_path: Path) -> None:
    length = struct.pack("<Q", 1 << 63)
    path = write_events(tmp_path / "f", record(b"a") + length + struct.pack("<I", crc32c(length)) + b"rest")
    assert read(path) == ([b"a"], False)


def test_a_large_hole_is_not_read(tmp_path: Path) -> None:
    path = write_events(tmp_path / "f", b"")
    os.truncate(path, 1 << 40)
    assert read(path, checked=0) == ([], True)


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_what_was_read_before_a_damage_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, written: list[bytes], data: st.DataObject
) -> None:
    whole = bytearray(b"".join(map(record, written)))
    if whole:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    path = write_events(tmp_path_factory.getbasetemp() / "flipped", bytes(whole))
    found, _ = read(path)
    assert found == written[: len(found)]


def test_the_writer_of_these_tests_knows_varints() -> None:
    assert varint(300) == b"\xac\x02" and varint(-1) == b"\xff" * 9 + b"\x01"
