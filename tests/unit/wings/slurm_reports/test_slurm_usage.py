"""GPU-hours and CPU efficiency of ended jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from slurm_fakes import EACH_VERSION, FakeSlurm

from worldsize.compute.capabilities import Usage
from worldsize.compute.slurm.job_rows import QUEUE, JobRow
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.wings.slurm_reports.reports import usages
from worldsize.wings.slurm_reports.usage import gpus_of_tres, usage, usage_of_row


@pytest.fixture(params=EACH_VERSION)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path, request.param)


def test_what_jobs_used(release: FakeSlurm) -> None:
    release.record("1", "COMPLETED", ElapsedRaw="3600", TotalCPU="04:00:00", CPUTimeRAW="28800")
    release.record("1.batch", "COMPLETED", ElapsedRaw="3600", TotalCPU="04:00:00", CPUTimeRAW="14400")
    release.record("2_5", "FAILED", "1:0", AllocTRES="billing=1,cpu=1,node=1", NNodes="1", TotalCPU="00:00.250")
    found = usage(["1", "2_5", "3"], release.run)
    first = found["1"]
    assert first is not None
    assert (first.nodes, first.elapsed, first.gpus, first.gpu_hours) == (2, 3600, 4, 4.0)
    assert (first.cpu_hours, first.cpu_efficiency) == (8.0, 0.5)
    second = found["2_5"]
    assert second is not None
    assert (second.gpus, second.gpu_hours, second.cpu_efficiency) == (None, None, 0.25 / 480)
    assert found["3"] is None
    assert [call[0] for call in release.calls()] == ["sacct"]


def test_every_attempt_counts(release: FakeSlurm) -> None:
    release.record("1", "PREEMPTED", Submit=100, ElapsedRaw="1800", TotalCPU="00:00:00", CPUTimeRAW="14400")
    release.record("1", "COMPLETED", Submit=200, ElapsedRaw="1800", TotalCPU="02:00:00", CPUTimeRAW="14400")
    release.record("1", "COMPLETED", Submit=50, JobName="an_older_job_of_this_number", ElapsedRaw="99999")
    found = usage(["1"], release.run)["1"]
    assert found is not None
    assert (found.elapsed, found.gpu_hours, found.cpu_efficiency) == (3600, 4.0, 0.25)


def test_while_accounting_has_not_noted_the_end_nothing_is_said(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.record("1", "RUNNING", End="Unknown")
    assert usage(["1"], fake.run) == {"1": None}


def test_where_nobody_measured_cpu_time_there_is_no_efficiency(release: FakeSlurm) -> None:
    release.record("1", "COMPLETED", TotalCPU="00:00:00")
    found = usage(["1"], release.run)["1"]
    assert found is not None
    assert found.cpu_efficiency is None


def test_a_job_that_never_started_used_nothing(release: FakeSlurm) -> None:
    release.record("1", "CANCELLED by 0", NodeList="None assigned", ElapsedRaw="0", AllocTRES="")
    assert usage(["1"], release.run) == {"1": None}


@pytest.mark.parametrize("mode", ["disabled", "away", "silent"])
def test_without_accounting_nothing_is_said(tmp_path: Path, mode: str) -> None:
    fake = FakeSlurm(tmp_path)
    fake.mode("sacct", mode)
    with pytest.raises((ConfigError, SubmitAgain, SubmitRejected)):
        usage(["1", "2"], fake.run)
    assert usages(["1", "2"], 300.0, fake.environ) == [None, None]
    assert usage([], fake.run) == {}


def test_what_the_queue_alone_tells() -> None:
    row = JobRow("1", QUEUE, "COMPLETED", node_count=2, elapsed=1800, tres="cpu=16,mem=1G,node=2,gres/gpu=8")
    found = usage_of_row(row)
    assert found == Usage(2, 1800, 8, 4.0, 8.0, None)
    assert usage_of_row(row._replace(state="RUNNING")) is None
    assert usage_of_row(row._replace(elapsed=None)) is None


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("cpu=8,node=2,gres/gpu=8", 8),
        ("billing=2,cpu=2,gres/gpu:h100=4,gres/gpu=4,mem=200M", 4),
        ("gres/gpu:a100=2,gres/gpu:a30=1", 3),
        ("cpu=8,gres/gpumem=0,gres/gpuutil=0", None),
        ("", None),
    ],
)
def test_gpus_in_a_tres(tres: str, gpus: int | None) -> None:
    assert gpus_of_tres(tres) == gpus
