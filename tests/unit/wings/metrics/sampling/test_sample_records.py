"""Samples as lines: what is written is read back, and nothing that a line may hold is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.wings.metrics.agent.records import (
    LONGEST_LINE,
    GpuFacts,
    GpuSample,
    GpuUse,
    NodeSample,
    NodeUse,
    RankSample,
    SamplesHeader,
    from_line,
    to_line,
)

GPUS = (GpuFacts(0, "GPU-1", "NVIDIA H100", 80 << 30), GpuFacts(1, "GPU-2", "", None))
HEADER = SamplesHeader(1, 1764224000.5, "n1", 3, 8, 64 << 30, GPUS, ("eth0", "ib0"))
SAMPLE = NodeSample(
    1764224002.25,
    (RankSample(6, 1.5, 1 << 30, 10, 20), RankSample(7, 0.0, 0, None, None)),
    5,
    None,
    (GpuSample(0, 0.97, 4 << 30, 312.0), GpuSample(1, None, None, None)),
)
USE = NodeUse(61.5, 14, 58.0, 2 << 30, 5, None, (GpuUse(0, 0.9, 5 << 30, 300.0),), 4.0)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just("n1"),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(NodeUse._fields), inner, max_size=8),
    max_leaves=12,
)


@pytest.mark.parametrize("record", [HEADER, SAMPLE, USE, NodeSample(1.0, ()), HEADER._replace(gpus=(), memory=None)])
def test_what_is_written_is_read(record: Any) -> None:
    line = to_line(record)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert from_line(line) == record
    assert from_line(line[:-1]) == record


def test_every_cut_of_a_line_is_left_out() -> None:
    for record in (HEADER, SAMPLE, USE):
        line = to_line(record)[:-1]
        assert [from_line(line[:end]) for end in range(len(line))] == [None] * len(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"null",
        b"[]",
        b"7",
        b'"sample"',
        b"{}",
        b'{"sample":null}',
        b'{"sample":{}}',
        b'{"sample":[]}',
        b'{"sample":["now",[]]}',
        b'{"sample":[1.0,[[0,1.0]]]}',
        b'{"sample":[1.0,[null]]}',
        b'{"sample":[NaN,[]]}',
        b'{"sample":[1e400,[]]}',
        b'{"sample":[1.0,[],true]}',
        b'{"sample":[1.0,{"0":1}]}',
        b'{"use":[1]}',
        b'{"use":{"seconds":1}}',
        b'{"header":{}}',
        b'{"header":"x"}',
        b"[" * 100_000,
        b'{"sample":' + b"[" * 100_000,
        b"9" * 5000,
        b"\xff\xfe",
        b" " * (LONGEST_LINE + 1) + b"{}",
    ],
)
def test_what_is_no_record_is_left_out(line: bytes) -> None:
    assert from_line(line) is None


def test_a_header_of_another_version_is_left_out() -> None:
    assert from_line(to_line(HEADER._replace(version=2))) is None


def test_what_a_newer_release_adds_is_left_out() -> None:
    value = json.loads(to_line(SAMPLE))
    value["sample"].append("more")
    value["sample"][1][0].append("more")
    assert from_line(json.dumps(value).encode()) == SAMPLE
    value = json.loads(to_line(USE))
    value["use"]["more"] = [1]
    assert from_line(json.dumps(value).encode()) == USE


@settings(max_examples=cases(50))
@given(st.sampled_from(["header", "sample", "use"]), VALUES)
def test_no_value_is_an_error(name: str, value: Any) -> None:
    from_line(json.dumps({name: value}).encode())


@given(st.binary(max_size=60))
def test_no_bytes_are_an_error(line: bytes) -> None:
    from_line(line)
