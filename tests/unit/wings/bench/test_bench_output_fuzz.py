"""Whatever was measured: no traceback, no number that is none, no efficiency of what is oversubscribed."""

from __future__ import annotations

import json
import re
from unittest.mock import patch

from bench_results import PRESENTATION
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.wings.bench.kinds import KINDS
from worldsize.wings.bench.output.csv_file import csv_text
from worldsize.wings.bench.output.derived import result_data
from worldsize.wings.bench.output.page import page_bytes
from worldsize.wings.bench.output.terminal import result_lines
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.scaling.charts import scaling_charts
from worldsize.wings.bench.scaling.curve import scaling_curve
from worldsize.wings.bench.scaling.recommendation import recommended_point
from worldsize.wings.bench.worlds import World
from worldsize.wings.pictures import provider

NUMBERS = st.one_of(st.none(), st.floats(), st.floats(0.1, 1e6))
WORLDS = st.builds(World, st.integers(0, 64), st.integers(0, 64))
MEASUREMENTS = st.builds(
    Measurement, WORLDS, run=st.sampled_from(["", "4kqp"]), rate=NUMBERS,
    rates=st.lists(st.floats(), max_size=9).map(tuple),
    seconds=NUMBERS, held=NUMBERS, gpus=st.integers(0, 4096), communication=NUMBERS,
    oversubscribed=st.sampled_from(["", "", "9 ranks, 4 cores"]), failure=st.sampled_from(["", "", "rank 0 died"]),
    details=st.sampled_from([{}, {"device": "NVIDIA A100-SXM4-80GB"}]),
)  # fmt: skip
RESULTS = st.builds(
    BenchResult, st.sampled_from(["resnet50", "job"]), st.just("ResNet-50"), st.just("images/s"),
    st.sampled_from(["weak", "strong"]), st.just("local"), st.floats(), st.just("1.0"),
    st.just({"precision": "fp16", "framework": "torch"}), st.just(()), st.just(()), version=st.just(1),
    measurements=st.lists(MEASUREMENTS, max_size=6).map(tuple),
)  # fmt: skip
_NO_NUMBER = re.compile(r"\b(nan|inf)\b", re.IGNORECASE)


@given(RESULTS, RESULTS)
@settings(max_examples=cases(100), deadline=None)
def test_any_result_is_told(result: BenchResult, other: BenchResult) -> None:
    with patch.dict(KINDS, {"resnet50": PRESENTATION, "job": PRESENTATION}):
        text = "\n".join(result_lines(result, other))
        json.dumps(result_data(result, other), allow_nan=False)
        table = csv_text(result)
        page_bytes(result, None, provider, other)
    scaling_charts(result, provider)
    assert not _NO_NUMBER.search(text) and not _NO_NUMBER.search(table)


@given(RESULTS)
@settings(max_examples=cases(200), deadline=None)
def test_what_is_recommended_was_measured_and_is_not_oversubscribed(
    result: BenchResult,
) -> None:
    curve = scaling_curve(result)
    for point in curve.points:
        judged = point.measurement.oversubscribed or point.measurement.failure
        assert not (judged and point.efficiency is not None)
    best = recommended_point(curve)
    if best is not None and curve.base is not None:
        assert best.rate is not None and best.efficiency is not None and not best.measurement.oversubscribed
        assert not curve.base.measurement.oversubscribed
        assert best.measurement is curve.base.measurement or (best.efficiency >= 0.75)
