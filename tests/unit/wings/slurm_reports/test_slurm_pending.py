"""Why a job waits, when it may start, and what would start sooner."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from slurm_fakes import FakeSlurm

from worldsize.compute.slurm.cluster import PartitionRow
from worldsize.compute.slurm.job_rows import QUEUE, JobRow
from worldsize.wings.slurm_reports.pending import (
    MAX_ESTIMATES,
    candidates,
    explain,
    find_earlier_starts,
    is_worth_trying,
    make_start_estimator,
    parse_start_estimate,
    time_limit_text,
)

NOW = 1_700_000_000.0
ROW = JobRow(
    "12",
    QUEUE,
    "PENDING",
    "Priority",
    partition="main",
    node_count=2,
    limit=4 * 3600,
    expected=NOW + 7200,
    tres="cpu=16,node=2,billing=16,gres/gpu=8",
)


def partition(name: str, **changes: object) -> PartitionRow:
    row = PartitionRow(name, False, True, None, None, 4, 4)
    return row._replace(**changes)  # type: ignore[arg-type]


def test_a_waiting_job_is_explained() -> None:
    found = explain(ROW, NOW)
    assert found.words == (
        "waits in partition main behind jobs of higher priority (Priority); Slurm expects it to start in 2 h"
    )
    assert (found.expected, found.stuck) == (NOW + 7200, False)


def test_an_expected_start_that_is_over_or_means_nothing_is_not_told() -> None:
    assert explain(ROW._replace(expected=NOW - 1), NOW).expected is None
    assert explain(ROW._replace(expected=None), NOW).expected is None
    held = explain(ROW._replace(reason="JobHeldUser"), NOW)
    assert (held.expected, held.stuck) == (None, True)
    assert "expects" not in held.words


@pytest.mark.parametrize(
    ("reason", "worth"),
    [
        ("Priority", True),
        ("Resources", True),
        ("", True),
        ("PartitionTimeLimit", True),
        ("QOSMaxGRESPerUser", True),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", True),
        ("ReqNodeNotAvail, Reserved for maintenance", True),
        ("Dependency", False),
        ("DependencyNeverSatisfied", False),
        ("JobHeldUser", False),
        ("BeginTime", False),
        ("JobArrayTaskLimit", False),
    ],
)
def test_other_options_are_only_tried_where_they_could_help(reason: str, worth: bool) -> None:
    assert is_worth_trying(ROW._replace(reason=reason)) is worth


@pytest.mark.parametrize(
    ("text", "trial"),
    [
        (
            "sbatch: Job 123 to start at 1700003600 using 16 processors on nodes node[1-2] in partition main\n",
            NOW + 3600,
        ),
        (
            "sbatch: Job 7 to start at 1700000000 a using 24 processors on nodes node[1-3] in partition short\n",
            NOW,
        ),
        (
            "sbatch: Job 7 to start at 1700000000 on cluster gpu a using 24 processors on nodes n1 in partition a\n",
            NOW,
        ),
        ("sbatch: Job 9 to start at 1700000000 using 8 processors on node[1,3]\n", NOW),
        (
            (
                "sbatch: Welcome!\nsbatch: Job 9 to start at 1700000000 using 8 processors on nodes n1 in partition a\n"
                "sbatch:   Preempts: 5,6\n"
            ),
            NOW,
        ),
        ("allocation failure: Requested node configuration is not available", None),
        ("sbatch: Job 9 to start at Unknown using 8 processors on nodes n1 in partition a\n", None),
        ("", None),
    ],
)
def test_what_test_only_answers(text: str, trial: float | None) -> None:
    """22.05 as recorded; "a using" and "on cluster" as 25.05's allocate.c has them; without a partition: a het job."""
    assert parse_start_estimate(text) == trial


def test_what_is_worth_a_trial() -> None:
    others = [
        partition("main"),
        partition("low"),
        partition("short", max_time=1800),
        partition("few", max_nodes=1),
        partition("small", nodes=1),
        partition("nogpu", gpus_per_node=0),
        partition("down", up=False),
    ]
    assert candidates(ROW, others) == [
        {"partition": "low"},
        {"time": "02:00:00"},
        {"partition": "short", "time": "00:30:00"},
        {"time": "01:00:00"},
    ]


def test_a_job_without_a_limit_is_tried_with_some() -> None:
    found = candidates(ROW._replace(limit=None), [partition("day", max_time=86400)])
    assert found[0] == {"partition": "day", "time": "1-00:00:00"}
    assert {"time": "1-00:00:00"} in found
    assert {"time": "01:00:00"} in found


def test_a_short_job_is_not_made_longer() -> None:
    assert candidates(ROW._replace(limit=120), []) == [{"time": "00:01:00"}]
    assert candidates(ROW._replace(limit=60), []) == []


def test_what_starts_sooner_comes_best_first() -> None:
    starts = {"": NOW + 7200, "low": NOW, "short": NOW + 600, "2h": NOW + 7190, "1h": NOW + 3600}
    asked: list[Mapping[str, str]] = []

    def trial(change: Mapping[str, str]) -> float | None:
        asked.append(change)
        key = change.get("partition") or {"02:00:00": "2h", "01:00:00": "1h"}.get(change.get("time", ""), "")
        return starts[key]

    found = find_earlier_starts(ROW, [partition("low"), partition("short", max_time=1800)], trial, NOW)
    assert [(each.words, each.gain) for each in found] == [
        ("slurm.partition low: at once", 7200),
        ("slurm.partition short with slurm.time 00:30:00: in 10 min", 6600),
        ("slurm.time 01:00:00: in 1 h", 3600),
    ]
    assert asked[0] == {}


@pytest.mark.parametrize(
    ("expected", "unchanged"), [(NOW + 600, NOW + 9000), (NOW + 9000, NOW + 600), (None, NOW + 600)]
)
def test_the_gain_is_over_what_is_expected_and_what_the_same_trial_says(
    expected: float | None, unchanged: float
) -> None:
    """24.11 puts a trial behind the job itself, which waits already."""

    def trial(change: Mapping[str, str]) -> float | None:
        return NOW + 300 if change else unchanged

    found = find_earlier_starts(ROW._replace(expected=expected), [partition("low")], trial, NOW)
    assert {each.gain for each in found} == {300}


def test_slurm_is_not_asked_for_ever() -> None:
    asked = []

    def trial(change: Mapping[str, str]) -> float | None:
        asked.append(change)
        return None

    assert find_earlier_starts(ROW, [partition("p%d" % number) for number in range(50)], trial, NOW) == []
    assert len(asked) == MAX_ESTIMATES


def test_a_job_that_cannot_start_as_it_is_may_with_a_change() -> None:
    def trial(change: Mapping[str, str]) -> float | None:
        return NOW if change == {"partition": "low"} else None

    found = find_earlier_starts(ROW._replace(expected=None), [partition("low")], trial, NOW)
    assert [(each.options, each.gain) for each in found] == [({"slurm.partition": "low"}, None)]


def test_trials_go_through_sbatch(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    line = "sbatch: Job 5 to start at 1700000000 using 16 processors on nodes node[1-2] in partition low"
    fake.set(trials={"low/": line})
    trial = make_start_estimator("#!/bin/sh\n", fake.environ)
    assert trial({"partition": "low"}) == NOW
    assert trial({"partition": "closed"}) is None
    fake.mode("sbatch", "away")
    assert trial({"partition": "low"}) is None
    assert all(call[1] == "--test-only" for call in fake.calls())


def test_no_trial_on_a_machine_without_slurm() -> None:
    assert make_start_estimator("#!/bin/sh\n", {"PATH": "/nowhere"})({}) is None


def test_times_as_slurm_takes_them() -> None:
    assert [time_limit_text(seconds) for seconds in (60, 1800, 3600, 86400, 90000)] == [
        "00:01:00",
        "00:30:00",
        "01:00:00",
        "1-00:00:00",
        "1-01:00:00",
    ]
