"""What the first rank has written: figures, or a sentence that says why not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from allreduce_reports import MIB, report, row
from hypothesis import given
from hypothesis import strategies as st

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.errors import NotFound, WorldsizeError
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.wings.bench.allreduce.benchmark import _read
from worldsize.wings.bench.allreduce.report import parse_report, read_report
from worldsize.wings.bench.result import Measurement
from worldsize.wings.bench.worlds import World

PAIR = World(1, 2)


def read(root: Path, value: Any, world: World = PAIR) -> Measurement:
    (root / "bench.json").write_text(json.dumps(value))
    run = SimpleNamespace(paths=SimpleNamespace(outputs=str(root)))
    return _read(cast(Run, run), cast(Status, None), world)


def test_the_rate_is_the_highest_bus_bandwidth(tmp_path: Path) -> None:
    found = read(tmp_path, report(row(8, 1e-5), row(MIB, 1e-3), row(64 * MIB, 0.1)))
    assert found.rate == pytest.approx(MIB / 1e-3 / 1e9)
    assert found.failure == "" and [each["size"] for each in found.details["rows"]] == [8, MIB, 64 * MIB]


def test_the_faster_of_both_forms_counts(tmp_path: Path) -> None:
    found = read(tmp_path, report(row(MIB, 1e-3, out_seconds=5e-4, out_wrong=0), ranks=4), World(2, 2))
    assert found.rate == pytest.approx(MIB / 5e-4 / 1e9 * 1.5)


def test_wrong_sums_fail_the_world(tmp_path: Path) -> None:
    found = read(tmp_path, report(row(wrong=3, out_seconds=1e-3, out_wrong=2)))
    assert found.failure == "5 elements of the results were wrong"


@pytest.mark.parametrize(("backend", "words"), [("mpi", "belongs to another MPI"), ("gloo", "1 of 2 ranks have")])
def test_ranks_that_were_alone_are_no_measurement_of_the_world(tmp_path: Path, backend: str, words: str) -> None:
    with pytest.raises(WorldsizeError, match=words):
        read(tmp_path, report(ranks=1, backend=backend))


@pytest.mark.parametrize(
    "value",
    [
        {}, [], None, "x", 3, report(rows=[]), report(rows=[{}]), report(rows={"a": 1}), report(ranks=0),
        report(ranks="2"), report(ranks=True), report(gpus=3), report(gpus=-1), report(threads=-1), report(device=None),
        report(software={"a": 1}), report(software=[]), report(row(size=0)), report(row(count=0)),
        report(row(count=-5)), report(ranks=-2),
        report(row(seconds=0)), report(row(seconds=-1.0)), report(row(seconds=1e-300)), report(row(seconds=None)),
        report(row(wrong=-1)), report(row(wrong=5, out_wrong=-5)), report(row(out_seconds=0.0)),
        report(row(size=1 << 60)),
        report(row(iterations=-1)), report(row(seconds="1")), report(*[row()] * 201), report(ranks=1 << 40),
    ],
)  # fmt: skip
def test_figures_that_cannot_be_are_refused_in_a_sentence(tmp_path: Path, value: Any) -> None:
    with pytest.raises(WorldsizeError, match="not a report of an all-reduce"):
        read(tmp_path, value)


@pytest.mark.parametrize(
    "text", ["", "{", "NaN", '{"rows": NaN}', "\x00", "[" * 100_000, '{"rows": ' + " " * (1 << 20)]
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(WorldsizeError):
        read_report(str(tmp_path))


def test_no_file_and_what_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="written no figures"):
        read_report(str(tmp_path))
    os.mkfifo(tmp_path / "bench.json")
    with pytest.raises(WorldsizeError):
        read_report(str(tmp_path))
    os.remove(tmp_path / "bench.json")
    os.mkdir(tmp_path / "bench.json")
    with pytest.raises(WorldsizeError):
        read_report(str(tmp_path))


def test_texts_are_bounded() -> None:
    software = {str(each) * 300: "y" * 300 for each in range(60)}
    found = parse_report(report(device="x" * 10_000, software=software))
    assert len(found.device) == 100 and 0 < len(found.software) <= 20
    assert all(len(name) <= 100 and len(text) <= 100 for name, text in found.software.items())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from([*report(), *(f"row.{name}" for name in row(out_seconds=1.0, out_wrong=0))])


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_rubbish_is_a_report_or_a_parse_error(changes: dict[str, Any]) -> None:
    first = row(**{name[4:]: value for name, value in changes.items() if name.startswith("row.")})
    try:
        found = parse_report(report(first, **{name: value for name, value in changes.items() if "." not in name}))
    except PARSE_ERRORS:
        return
    assert found.rows and found.wrong >= 0 and all(each.seconds > 0 for each in found.rows)
