"""Whether a partition can ever take a job: limits of time, nodes and GPUs, and times as sbatch reads them."""

from __future__ import annotations

import pytest

from worldsize.compute.slurm.cluster import PartitionRow
from worldsize.compute.slurm.preflight import candidate_partitions, partition_problems
from worldsize.plan.time_limit import limit_seconds


def partition(name: str = "main", **changes: object) -> PartitionRow:
    row = PartitionRow(name, name == "main", True, None, None, 8, 4)
    return row._replace(**changes)


SHORT = partition("short", max_time=3600, max_nodes=2)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("2:00:00", 7200),
        ("1-12", 129_600),
        ("1-12:30", 131_400),
        ("1-00:00:05", 86_405),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_times_as_sbatch_reads_them(text: str, seconds: int | None) -> None:
    assert limit_seconds(text) == seconds


@pytest.mark.parametrize(
    ("options", "gpus", "places"),
    [
        ([("nodes", "2"), ("time", "60")], None, []),
        ([("nodes", "2"), ("time", "61")], None, ["slurm.time"]),
        ([("nodes", "2"), ("time", "soon")], None, []),
        ([("nodes", "2"), ("time", "UNLIMITED")], None, []),
        ([("nodes", "2"), ("time", "0")], None, []),
        ([("nodes", "2"), ("time", None)], None, []),
        ([("nodes", "3")], None, ["resources.instance_count"]),
        ([("nodes", "9")], None, ["resources.instance_count"]),
        ([("nodes", "1")], 5, ["slurm.gpus_per_node"]),
        ([("nodes", "3"), ("time", "1-0")], 5, ["resources.instance_count", "slurm.gpus_per_node", "slurm.time"]),
    ],
)
def test_what_does_not_fit_is_laid_to_its_key(
    options: list[tuple[str, str | None]], gpus: int | None, places: list[str]
) -> None:
    found = partition_problems(options, gpus, [SHORT])
    assert [result.where for result in found] == places
    assert {result.level for result in found} <= {"error"}


def test_a_quality_of_service_may_lift_limits_but_brings_no_hardware() -> None:
    asked: list[tuple[str, str | None]] = [("nodes", "3"), ("time", "61"), ("qos", "long")]
    assert [result.level for result in partition_problems(asked, 5, [SHORT])] == ["notice", "error", "notice"]


def test_of_several_partitions_one_that_takes_it_is_enough() -> None:
    asked: list[tuple[str, str | None]] = [("nodes", "3"), ("partition", "short,main")]
    rows = candidate_partitions(asked, [SHORT, partition(), partition("other")])
    assert [row.name for row in rows] == ["short", "main"]
    assert partition_problems(asked, 4, rows) == []
    assert len(partition_problems(asked, 9, rows)) == 1, "what fails in the best of them"


def test_without_a_name_it_is_the_default_partition() -> None:
    assert [row.name for row in candidate_partitions([("nodes", "1")], [SHORT, partition()])] == ["main"]
    assert partition_problems([("nodes", "99")], 99, []) == [], "nothing is known"
