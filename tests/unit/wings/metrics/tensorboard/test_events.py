from __future__ import annotations

import math
import struct

import pytest
from event_file_bytes import event, field, scalar, tensor, varint
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics.tensorboard.events import PARSE_ERRORS, _any_event, parse_event


@given(
    st.floats(allow_nan=False),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.text(max_size=200),
    st.floats(allow_nan=False, width=32),
)
def test_a_scalar_as_torch_writes_it(time: float, step: int, tag: str, value: float) -> None:
    data = event(time, step, scalar(tag, value))
    assert parse_event(data) == (time, step, [(tag.encode(), True, value)]) == _any_event(data)


def test_the_first_step_may_be_missing() -> None:
    data = field(1, 5.0, wire=1) + field(5, field(1, scalar("loss", 0.5)))
    assert parse_event(data) == (5.0, 0, [(b"loss", True, 0.5)])


def test_values_that_are_no_numbers() -> None:
    for value in (math.inf, -math.inf):
        assert parse_event(event(1.0, 2, scalar("loss", value)))[2] == [(b"loss", True, value)]
    assert math.isnan(parse_event(event(1.0, 2, scalar("loss", math.nan)))[2][0][2])


def test_several_values_of_one_event_and_what_is_between_them() -> None:
    image = field(1, b"image") + field(4, field(1, 3) + field(4, b"\x89PNG"))
    data = event(1.0, 7, scalar("a", 1.0), image, scalar("b", 2.0)) + field(99, b"later") + field(98, 3)
    assert parse_event(data) == (1.0, 7, [(b"a", True, 1.0), (b"b", True, 2.0)])


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        (1, field(4, struct.pack("<f", 0.5)), 0.5),
        (2, field(4, struct.pack("<d", 0.1)), 0.1),
        (3, field(4, struct.pack("<i", -7)), -7.0),
        (9, field(4, struct.pack("<q", 1 << 40)), float(1 << 40)),
        (19, field(4, struct.pack("<e", 1.5)), 1.5),
        (1, field(5, struct.pack("<f", 0.5)), 0.5),
        (1, field(5, 0.5), 0.5),
        (2, field(6, struct.pack("<d", 0.1)), 0.1),
        (2, field(6, 0.25, wire=1), 0.25),
        (3, field(7, varint(-3)), -3.0),
        (3, field(7, 12), 12.0),
        (9, field(10, varint(1 << 40)), float(1 << 40)),
    ],
)
def test_tensors_with_one_number(kind: int, content: bytes, value: float) -> None:
    assert parse_event(event(1.0, 3, tensor("loss", content, kind)))[2] == [(b"loss", True, value)]
    assert parse_event(event(1.0, 3, tensor("loss", content, kind, None)))[2] == [(b"loss", False, value)]


def test_tensors_that_are_no_scalars() -> None:
    two = tensor("loss", field(4, bytes(8)), 1, shape=field(2, field(1, 2)))
    none = tensor("loss", field(4, b""), 1, shape=field(2, field(1, 0)))
    text = tensor("notes", field(8, b"hello"), 7, plugin="text")
    hparams = tensor("_hparams_/experiment", field(5, struct.pack("<f", 0.0)), 1, plugin="hparams")
    wrong = tensor("loss", field(4, bytes(5)), 1)
    unknown = tensor("loss", field(4, bytes(4)), 77)
    assert parse_event(event(1.0, 3, two, none, text, hparams, wrong, unknown))[2] == []


def test_a_tensor_of_the_class_of_scalars_is_one() -> None:
    metadata = field(9, field(1, field(1, b"own")) + field(4, 1))
    data = field(1, b"loss") + metadata + field(8, field(1, 1) + field(4, struct.pack("<f", 2.0)))
    assert parse_event(event(1.0, 3, data))[2] == [(b"loss", True, 2.0)]


@pytest.mark.parametrize(
    "data",
    [
        bytes(20),
        b"\x0b",
        b"\x2a\x05\x0a",
        b"\x10" + b"\xff" * 11,
        b"\x09\x00",
        b"\x2a" + b"\xff" * 9 + b"\x01",
        b"\xff",
    ],
    ids=repr,
)
def test_bytes_that_are_no_event(data: bytes) -> None:
    with pytest.raises(PARSE_ERRORS):
        parse_event(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_event_or_an_error_that_is_known(data: bytes) -> None:
    try:
        parse_event(data)
    except PARSE_ERRORS:
        pass


@given(st.integers(0, 200), st.integers(0, 255))
def test_the_short_way_and_the_long_way_agree_on_damaged_bytes(at: int, value: int) -> None:
    data = bytearray(event(1.5, 300, scalar("train/loss", 0.5)))
    data[at % len(data)] = value
    try:
        expected = _any_event(bytes(data))
    except PARSE_ERRORS:
        expected = None
    try:
        found = parse_event(bytes(data))
    except PARSE_ERRORS:
        found = None
    assert repr(found) == repr(expected)
