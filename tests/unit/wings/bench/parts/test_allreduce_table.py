"""The lines that the first rank prints, beside recorded ones (nccl-tests' issues 167 and 293, rccl's 2078)."""

from __future__ import annotations

import re
from argparse import Namespace
from typing import Any

import pytest
from allreduce_reports import MIB, report, row  # puts the ranks' programs on the path

table = __import__("allreduce.table", fromlist=["table"])
sweep = __import__("allreduce.sweep", fromlist=["sweep"])

RECORDED = [
    (
        "           8             2     float     sum      -1"
        "    17.08    0.00    0.00      0    16.76    0.00    0.00      0"
    ),
    (
        "      199680         49920     float     sum      -1"
        "    125.8    1.59    2.98      0    125.1    1.60    2.99      0"
    ),
    (
        "  2147483648     536870912     float     sum      -1"
        "    11186  191.99  359.98      0    11199  191.75  359.53      0"
    ),
]


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_line_is_the_one_that_nccl_tests_prints(recorded: str) -> None:
    words = recorded.split()
    made: dict[str, Any] = {"size": int(words[0]), "count": int(words[1]), "out_wrong": 0, "wrong": 0}
    made["out_seconds"], made["seconds"] = float(words[5]) / 1e6, float(words[9]) / 1e6
    shown = table.line(made, "float32", 16)
    assert [len(part) for part in re.split(r"(?<=\S)(?= )", shown)] == [
        len(part) for part in re.split(r"(?<=\S)(?= )", recorded)
    ]
    for one, other in zip(shown.split(), words, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), rel=1e-4)  # of times that were rounded


def test_the_columns_of_a_library_without_out_of_place_keep_their_width() -> None:
    made = table.line(row(8, 1e-5), "bfloat16", 2)
    assert len(made) == len(RECORDED[0])
    assert made.split()[2:5] == ["bfloat16", "sum", "-1"]
    assert made.split()[5:9] == ["N/A"] * 4


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9.994e-6, "9.99"), (99.99e-6, "99.99"), (100e-6, "100.0"), (9.9999e-3, "9999.9"), (10e-3, "10000")],
)
def test_microseconds_have_the_digits_of_nccl_tests(seconds: float, text: str) -> None:
    assert table.line(row(8, seconds), "float32", 2).split()[9] == text


def test_the_end_counts_wrong_values_and_the_mean_of_both_halves() -> None:
    rows = [row(10**9, 1.0, out_seconds=0.5, out_wrong=2), row(10**9, 1.0, wrong=1, out_seconds=None)]
    lines = table.footer(rows, 2)
    assert lines[0] == "# Out of bounds values : 3 FAILED"
    assert lines[1] == "# Avg bus bandwidth    : 1.33333"
    assert table.footer([], 2)[0].endswith("0 OK")


class FakeReducer(sweep.Reducer):  # type: ignore[misc, name-defined]
    """Reduces nothing; each all-reduce takes `seconds` of the clock."""

    rank, ranks, backend, element = 0, 2, "fake", 4

    def __init__(self, seconds: float) -> None:
        self.seconds, self.clock = seconds, 0.0
        self.asked: list[int] = []
        self.software: dict[str, str] = {}

    def reduce(self, count: int) -> None:
        self.clock += self.seconds
        self.asked.append(count)

    def zero(self, count: int) -> None: ...

    def barrier(self) -> None: ...

    def count_wrong(self, count: int, out: bool) -> int:
        return 0

    def slowest(self, value: float) -> float:
        return value

    def from_first(self, value: int) -> int:
        return value

    def gather(self, text: str) -> list[str]:
        return [text] * self.ranks


def measured(monkeypatch: pytest.MonkeyPatch, seconds: float, **more: Any) -> tuple[FakeReducer, dict[str, Any]]:
    reducer = FakeReducer(seconds)
    monkeypatch.setattr(sweep.time, "perf_counter", lambda: reducer.clock)
    arguments = Namespace(**{"iterations": 0, "warmup": 5, **more})
    return reducer, sweep._measure(reducer, 2, arguments)


@pytest.mark.parametrize(
    ("seconds", "iterations"), [(1e-6, 1000), (1e-3, 100), (0.0101, 20), (0.11, 9), (0.4, 3), (30, 3), (0.0, 1000)]
)
def test_short_all_reduces_are_repeated_often_and_long_ones_at_least_three_times(
    monkeypatch: pytest.MonkeyPatch, seconds: float, iterations: int
) -> None:
    reducer, found = measured(monkeypatch, seconds)
    assert abs(found["iterations"] - iterations) <= 1
    assert found["seconds"] == pytest.approx(seconds)
    assert len(reducer.asked) == 5 + 1 + found["iterations"]


def test_as_many_as_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reducer, found = measured(monkeypatch, 1e-3, iterations=7, warmup=0)
    assert (found["iterations"], len(reducer.asked), found["size"], found["out_seconds"]) == (7, 8, 8, None)


def test_sizes_that_are_as_many_elements_are_measured_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    reducer = FakeReducer(1e-3)
    monkeypatch.setattr(sweep.time, "perf_counter", lambda: reducer.clock)
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    sweep.run_sweep(reducer, Namespace(sizes=[1, 2, 4, 7, 8], iterations=1, warmup=0, dtype="float32"))
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    assert [int(line.split()[0]) for line in lines] == [4, 8]
    from worldsize.wings.bench.allreduce.report import read_report

    found = read_report(str(tmp_path / "outputs"))
    assert ([each.size for each in found.rows], found.threads, found.backend) == ([4, 8], 4, "fake")


def test_the_hand_made_report_is_of_the_same_form() -> None:
    assert set(report()["rows"][0]) < {"size", "count", "seconds", "wrong", "iterations", "out_seconds", "out_wrong"}
    assert MIB == 1 << 20
