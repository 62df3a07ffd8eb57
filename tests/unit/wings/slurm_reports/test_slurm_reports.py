"""What Slurm tells people: what a run used, and why a job waits."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from slurm_fakes import FakeSlurm

from worldsize.compute.capabilities import Usage
from worldsize.errors import SubmitAgain
from worldsize.wings.slurm_reports import reports


def asked_for_usage(fake: FakeSlurm, patience: float = 0.0) -> list[Usage | None]:
    return reports.usages(["1"], patience, fake.environ)


def test_usage_comes_from_accounting_else_from_the_queue(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.job("1", "COMPLETED")
    fake.mode("sacct", "disabled")
    (found,) = asked_for_usage(fake)
    assert found is not None and found.gpu_hours == pytest.approx(4 / 60) and found.cpu_efficiency is None
    fake.mode("sacct", "")
    fake.record("1", "COMPLETED")
    (found,) = asked_for_usage(fake)
    assert found is not None and found.cpu_efficiency == pytest.approx(0.75, abs=0.01)


def test_accounting_that_is_off_is_not_waited_for(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.mode("sacct", "disabled")
    started = time.monotonic()
    assert asked_for_usage(fake, patience=300.0) == [None]
    assert time.monotonic() - started < 60


def test_accounting_that_lags_is_waited_for_a_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(reports, "time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append))
    monkeypatch.setattr(reports, "_SHORTEST_ANSWER", 30.0)
    fake = FakeSlurm(tmp_path)
    fake.record("1", "RUNNING", End="Unknown")
    assert asked_for_usage(fake, patience=0.5) == [None]
    assert len(fake.calls("sacct")) > 1 and 0 < sum(slept) <= 0.5


def test_a_job_that_waits_is_explained(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.job("1", "PENDING", reason="Priority", starttime=int(time.time()) + 7200, nodelist="")
    found = reports.explain("1", "#!/bin/bash\n", 5.0, fake.environ)
    assert found is not None
    assert found.reason == "Priority" and "higher priority" in found.words and not found.stuck
    fake.job("2", "RUNNING")
    assert reports.explain("2", "", 5.0, fake.environ) is None
    fake.mode("squeue", "away")
    with pytest.raises(SubmitAgain):
        reports.explain("1", "", 5.0, fake.environ)
