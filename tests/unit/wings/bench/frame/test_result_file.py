"""`result.json`: what is written is read again, and what is something else is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worldsize.errors import UsageError, WorldsizeError
from worldsize.wings.bench.directory import former_result, locked_directory
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.result_file import read_result, write_result
from worldsize.wings.bench.worlds import World

MEASURED = (
    Measurement(World(1, 1), "20261127-120032-183jsp", 19.5, (19.0, 20.0), 12.1, 12.5, 0, 0.0, "", "", {"batch": 2}),
    Measurement(World(2, 2), "20261127-120052-290cyt", failure="it was cancelled"),
)
RESULT = BenchResult(
    "job", "digits", "runs/h", "strong", "local", 1764244832.0, "0.1.0", {"command": "python train.py"},
    (("CPU", "a model"),), (("Python", "3.11"),), MEASURED,
)  # fmt: skip


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    write_result(RESULT, str(tmp_path))
    assert read_result(str(tmp_path / "result.json")) == RESULT
    assert read_result(str(tmp_path)) == RESULT


def changed(**fields: Any) -> dict[str, Any]:
    measurements = [{**each._asdict(), "world": each.world._asdict()} for each in MEASURED]
    return {**RESULT._asdict(), "measurements": measurements, **fields}


@pytest.mark.parametrize(
    "value",
    [
        [], {}, None, 3, {"version": 1}, changed(version="1"), changed(kind=3), changed(hardware=[["CPU"]]),
        changed(measurements=[{"world": {"nodes": 0, "ranks_per_node": 1}}]),
        changed(measurements=[{"world": [1, 1], "rate": -1.0}]),
        changed(measurements=[{"world": [1, 1], "rate": "fast"}]),
        changed(measurements=[{"world": None}]), changed(created="now"), changed(settings=[1]),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused(tmp_path: Path, value: Any) -> None:
    (tmp_path / "result.json").write_text(json.dumps(value))
    with pytest.raises(UsageError):
        read_result(str(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[" * 100000, '{"version": NaN}', "\0"])
def test_text_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(UsageError):
        read_result(str(tmp_path))


def test_a_result_of_a_newer_release_says_so(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps(changed(version=2)))
    with pytest.raises(UsageError, match="newer worldsize"):
        read_result(str(tmp_path))


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(field=st.sampled_from(BenchResult._fields), value=JSON)
def test_any_value_of_any_field_is_read_or_refused(tmp_path: Path, field: str, value: Any) -> None:
    (tmp_path / "result.json").write_text(json.dumps(changed(**{field: value})))
    try:
        read_result(str(tmp_path))
    except UsageError:
        pass


def test_a_directory_is_gone_on_with_where_the_settings_are_the_same(tmp_path: Path) -> None:
    empty = RESULT._replace(measurements=(), hardware=(), software=(), created=9.0)
    assert former_result(str(tmp_path), empty) == empty
    write_result(RESULT, str(tmp_path))
    assert former_result(str(tmp_path), empty) == RESULT


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("settings", {"command": "python other.py"}, "command python other.py, there python train.py"),
        ("settings", {}, "command not set, there python train.py"),
        ("unit", "images/s", "unit images/s, there runs/h"),
        ("compute", "lab", "compute lab, there local"),
    ],
)
def test_other_settings_are_refused_with_what_differs(tmp_path: Path, field: str, value: Any, said: str) -> None:
    write_result(RESULT, str(tmp_path))
    with pytest.raises(UsageError) as raised:
        former_result(str(tmp_path), RESULT._replace(**{field: value}))
    assert said in str(raised.value)


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(UsageError, match="contains files"), locked_directory(str(tmp_path)):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(WorldsizeError), locked_directory(str(tmp_path / "file")):
        pass


def test_a_directory_that_stays_empty_is_removed_where_it_was_made(tmp_path: Path) -> None:
    there, new = tmp_path / "there", tmp_path / "new"
    there.mkdir()
    for place in (there, new):
        with locked_directory(str(place)):
            assert place.is_dir()
    assert there.is_dir() and not new.exists()
    with locked_directory(str(new)):
        new.rmdir()  # by somebody else


def test_two_benchmarks_do_not_write_into_one_directory(tmp_path: Path) -> None:
    place = str(tmp_path / "new" / "place")
    with (
        locked_directory(place),
        pytest.raises(UsageError, match="another benchmark is writing there"),
        locked_directory(place),
    ):
        pass
    with locked_directory(place):
        pass
