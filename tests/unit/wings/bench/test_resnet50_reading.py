"""What the ranks of `bench resnet50` have written: read as a measurement, or refused in a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.errors import WorldsizeError
from worldsize.wings.bench.resnet50.reading import parse_measurement, read_measurement
from worldsize.wings.bench.worlds import World

WORLD = World(1, 2)
REPORT = {
    "version": 1,
    "framework": "torch",
    "ranks": 2,
    "precision": "fp32",
    "batch": 8,
    "steps": 10,
    "warmup": 2,
    "loss": 6.9,
    "parameters": 25557032,
    "communication": 0.25,
    "device": "NVIDIA A100-SXM4-80GB",
    "gpus": 2,
    "threads": 4,
    "software": {"framework": "PyTorch 2.13.0", "Python": "3.11.7"},
    "block_seconds": [2.0, 1.0, 4.0],
    "block_steps": [4, 3, 3],
    "data": "synthetic",
}


def read(tmp_path, **changed):
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({**REPORT, **changed}))
    return read_measurement(str(path), WORLD)


def test_a_rate_is_all_ranks_images_over_the_slowest_ranks_time_and_the_median_of_blocks_counts(tmp_path):
    found = read(tmp_path)
    assert found.rates == (32.0, 48.0, 12.0)
    assert found.rate == 32.0
    assert (found.gpus, found.communication, found.seconds) == (2, 0.25, None)
    assert found.details["step_seconds"] == pytest.approx(0.7)
    assert found.details["threads"] == 4
    assert found.details["device"] == "NVIDIA A100-SXM4-80GB"
    assert found.details["software"]["framework"] == "PyTorch 2.13.0"


def test_what_a_framework_does_not_tell_is_not_known(tmp_path):
    found = read(tmp_path, communication=None, threads=None, later="?")
    assert found.communication is None
    assert "threads" not in found.details
    assert "later" not in found.details


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": 2}, "newer"),
        ({"ranks": 3}, "3 ranks have taken part, and 1x2 has 2"),
        ({"ranks": True}, "ranks is True"),
        ({"batch": 0}, "batch is 0"),
        ({"batch": 1e9}, "batch is"),
        ({"block_seconds": []}, "block_seconds"),
        ({"block_seconds": [1.0, 0.0, 1.0]}, "block_seconds contains 0.0"),
        ({"block_seconds": [1.0, float("nan"), 1.0]}, "block_seconds contains nan"),
        ({"block_seconds": [1.0, "1", 1.0]}, "block_seconds contains '1'"),
        ({"block_seconds": [1.0]}, "differ in number"),
        ({"block_steps": [1] * 2000}, "block_steps"),
        ({"communication": 1.5}, "communication is 1.5"),
        ({"gpus": -1}, "gpus is -1"),
        ({"device": "\x1b[2J"}, "is not text"),
        ({"software": {"framework": "x" * 300}}, "is not text"),
        ({"software": []}, "is not a measurement"),
    ],
)
def test_what_does_not_fit_is_one_sentence(tmp_path, changed, why):
    with pytest.raises(WorldsizeError, match=why) as refused:
        read(tmp_path, **changed)
    assert refused.value.where == str(tmp_path / "bench.json")


def test_a_missing_file_a_huge_one_and_a_link_are_told(tmp_path):
    path = tmp_path / "bench.json"
    with pytest.raises(WorldsizeError, match="left no measurement"):
        read_measurement(str(path), WORLD)
    path.write_bytes(b" " * (2 << 20))
    with pytest.raises(WorldsizeError, match="too large"):
        read_measurement(str(path), WORLD)
    path.write_text("[" * 100000)
    with pytest.raises(WorldsizeError, match="is not a measurement"):
        read_measurement(str(path), WORLD)


rubbish = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
values = st.one_of(rubbish, st.lists(rubbish, max_size=3), st.dictionaries(st.text(max_size=3), rubbish, max_size=2))


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(sorted(REPORT)), values, max_size=3), st.sampled_from(["", *sorted(REPORT)]))
def test_nothing_in_the_file_raises_anything_else(changed, left_out):
    report = {name: value for name, value in {**REPORT, **changed}.items() if name != left_out}
    try:
        found = parse_measurement(json.dumps(report).encode(), WORLD)
    except PARSE_ERRORS:
        return
    assert found.rate > 0
    json.dumps(found.details, allow_nan=False)
