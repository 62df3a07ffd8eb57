"""Tables, sentences and pictures of launchers beside each other."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.bench.launch.presentation import charts, sentences, tables
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.worlds import World
from worldsize.wings.pictures import chart_values

SMALL = World(1, 2)


def measured(name: str, first: list[float], world: World = SMALL, **more: Any) -> Measurement:
    values = {
        name: more.pop(name) for name in ("step", "end", "failure_end", "endless", "left", "nodes") if name in more
    }
    empty = {"step": [], "end": [], "failure_end": [], "left": 0, "nodes": 1, "failures": 0}
    return Measurement(world, details={"launcher": name, "version": "1.2", "first": first, **empty, **values}, **more)


def launched(*measurements: Measurement) -> BenchResult:
    return BenchResult("launch", "Launchers", "s", "", "local", 1.7e9, "1.0", measurements=measurements)


def test_a_row_has_medians_and_ranges() -> None:
    rows = (measured("worldsize", [0.1, 0.3, 0.2], end=[0.01]), measured("mpirun", [], failure="refused", left=2))
    (table,) = tables(launched(*rows))
    assert table.caption == "1x2, 2 ranks"
    assert table.headers[2:6] == ("first line, s", "first step, s", "end, s", "end after a failure, s")
    assert table.rows == (
        ("worldsize", "1.2", "0.200 (0.100–0.300)", "—", "0.010", "—", "0", ""),
        ("mpirun", "1.2", "—", "—", "—", "—", "2", "refused"),
    )


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ([0.1, 0.2], [1.0, 2.0], "mpirun 1.50 s (10 times as long)"),
        ([0.5], [0.6], "mpirun 0.600 s (1.2 times as long)"),
        ([0.05], [59.0], "mpirun 59.00 s (1180 times as long)"),
        ([0.5], [0.51], "mpirun 0.510 s (no clear difference)"),
        ([0.001], [0.007], "mpirun 0.007 s (no clear difference)"),
        ([0.5], [0.2], "mpirun 0.200 s (2.5 times as fast)"),
        ([0.4, 0.6], [0.5, 0.7], "mpirun 0.600 s (no clear difference)"),
        ([0.4, 0.4], [0.4, 0.4], "mpirun 0.400 s (no clear difference)"),
        ([0.0], [0.1], "mpirun 0.100 s (100000 times as long)"),
    ],
)
def test_a_ratio_says_who_is_faster(own: list[float], other: list[float], said: str) -> None:
    (found,) = sentences(launched(measured("worldsize", own), measured("mpirun", other)))
    assert found.startswith("1x2: first line: worldsize ") and found.endswith("; %s." % said)


def test_worldsize_alone_and_others_alone() -> None:
    assert sentences(launched(measured("worldsize", [0.25]))) == ("1x2: first line: worldsize 0.250 s.",)
    assert sentences(launched(measured("mpirun", [0.25]))) == ("Nothing is compared: worldsize was not measured.",)
    assert sentences(launched()) == ("Nothing was measured.",)


@pytest.mark.parametrize(
    ("version", "why"),
    [("", ""), ("MPICH 5.0.2", ": it ends others where they have called MPI_Init, which these have not")],
)
def test_what_never_ends_after_a_failure_is_told(version: str, why: str) -> None:
    found = measured("mpirun", [0.1], endless=60.0)
    found = launched(found._replace(details={**found.details, "version": version}))
    assert tables(found)[0].rows[0][5] == "> 60"
    assert sentences(found) == ("1x2: mpirun continues for more than 60 s after a rank has failed%s." % why,)


def test_one_round_is_told() -> None:
    found = launched(measured("worldsize", [0.25]))._replace(settings={"rounds": "1"})
    assert sentences(found)[-1] == "From one round: the spread of these times is unknown."


def test_what_makes_times_no_fair_comparison_is_said() -> None:
    rows = [measured(name, [], World(2, 2), failure="refused", left=left) for name, left in (("a", 1), ("b", 2))]
    crowd = "oversubscribed: 4 ranks × 1 thread on 2 cores"
    rows.append(measured("worldsize", [0.1], World(2, 2), nodes=2, oversubscribed=crowd))
    assert sentences(launched(*rows)) == (
        "2x2: first line: worldsize 0.100 s.",
        "2x2: a: refused.",
        "2x2: b: refused.",
        "2x2: a left 1 process behind.",
        "2x2: b left 2 processes behind.",
        "2x2: a, b had all 4 ranks on one node.",
        "2x2: oversubscribed: 4 ranks × 1 thread on 2 cores.",
    )


def lines(*measurements: Measurement) -> list[tuple[str, list[float], list[float]]]:
    found = charts(launched(*measurements), chart_values)
    assert [chart.title for chart in found] == ["First line"]
    return [(line.label, list(line.xs), list(line.ys)) for line in found[0].lines]


def test_a_picture_has_bars_over_ranks() -> None:
    rows = [
        measured(name, [time, time], World(1, ranks)) for ranks in (2, 4) for name, time in (("a", 1.0), ("b", 2.0))
    ]
    assert lines(*rows) == [("a", [2.0, 4.0], [1.0, 1.0]), ("b", [2.0, 4.0], [2.0, 2.0])]


def test_worlds_of_equally_many_ranks_have_bars_of_their_own() -> None:
    rows = [
        measured("worldsize", [1.0], World(1, 4)),
        measured("mpirun", [2.0], World(1, 4)),
        measured("worldsize", [3.0], World(2, 2), nodes=2),
        measured("mpirun", [4.0], World(2, 2)),
    ]
    assert lines(*rows) == [
        ("worldsize", [4.0], [1.0]), ("mpirun", [4.0], [2.0]), ("worldsize, 2 nodes", [4.0], [3.0])
    ]  # fmt: skip


def test_a_launcher_that_failed_has_no_bar() -> None:
    found = lines(measured("mpirun", [], failure="x"), measured("worldsize", [1.0]))
    assert found == [("mpirun", [], []), ("worldsize", [2.0], [1.0])]
    assert charts(launched(), chart_values) == ()


VALUES = (None, True, -1, 0, 10**400, 0.1, math.nan, math.inf, "", "x", [], [[]], [0.2], [True], [10**400], [math.inf])
NAMES = ("launcher", "version", "nodes", "left", "first", "step", "end", "failure_end", "endless")


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3))
def test_a_file_may_hold_anything(details: dict[str, Any]) -> None:
    good = measured("worldsize", [0.1])
    found = launched(good._replace(details={**good.details, **details}), Measurement(World(1, 1), details=details))
    sentences(found), tables(found), charts(found, chart_values)
