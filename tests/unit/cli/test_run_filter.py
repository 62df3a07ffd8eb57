"""Which runs `list` shows, and the words for them."""

from __future__ import annotations

import pytest

from worldsize.cli.runs.run_filter import RunFilter, parse_since
from worldsize.cli.runs.times import rfc3339, with_times
from worldsize.errors import UsageError
from worldsize.store.summaries import Summary

NOW = 1795867502.5


def summary(**fields: object) -> Summary:
    values = {
        "id": "r",
        "name": "resnet50",
        "state": "FAILED",
        "reason": None,
        "compute": "lab",
        "nodes": 1,
        "ranks": 1,
    }
    return Summary(**{**values, "created": NOW, "tags": {"lr": "0.1"}, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (RunFilter(), True),
        (RunFilter(state="FAILED", name="resnet*", compute="lab", since=NOW, tags=(("lr", None),), ids=["r"]), True),
        (RunFilter(state="SUCCEEDED"), False),
        (RunFilter(name="resnet"), False),
        (RunFilter(compute="local"), False),
        (RunFilter(since=NOW + 1), False),
        (RunFilter(experiment="x"), False),
        (RunFilter(tags=(("lr", "0.2"),)), False),
        (RunFilter(ids=["other"]), False),
    ],
)
def test_fits(wanted: RunFilter, fits: bool) -> None:
    assert wanted.fits(summary()) is fits


def test_an_element_is_where_its_array_is() -> None:
    assert RunFilter(ids=["array"]).fits(summary(id="array_3", array="array"))


def test_words() -> None:
    wanted = RunFilter("FAILED", "r*", "lab", 1.0, "e", (("a", None), ("b", "c")), [])
    assert wanted.words == (
        "FAILED, called r*, on lab, made since then, of experiment e, tagged a, tagged b=c, started from this directory"
    )
    assert RunFilter().words == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h", NOW - 3600),
        ("7d ago", NOW - 7 * 86400),
        ("2026-11-28T12:00:00Z", 1795867200.0),
        ("2026-11-28T13:00:00+01:00", 1795867200.0),
    ],
)
def test_since(text: str, seconds: float) -> None:
    assert parse_since(text, NOW) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "-1d", "1y", "2026-"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_since(text, NOW)
    assert error.value.where == "--since"


def test_times_stand_behind_the_seconds() -> None:
    found = with_times({"id": "r", "created": NOW, "started": None, "state": "x"})
    assert list(found) == ["id", "created", "created_at", "started", "started_at", "state"]
    assert (found["created_at"], found["started_at"]) == ("2026-11-28T12:05:02.500Z", None)


@pytest.mark.parametrize("value", ["text", float("nan"), 1e300, [], True])
def test_what_a_damaged_record_may_hold(value: object) -> None:
    assert with_times({"ended": value})["ended_at"] in (None, rfc3339(1.0))
