"""MLClient: it submits, and says of all else what there is instead."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import worldsize
from worldsize.errors import JobError, UsageError
from worldsize.jobspec.job import Data
from worldsize.service.runs.run import Run
from worldsize.wings.python_surface.command_job import command
from worldsize.wings.python_surface.ml_client import MLClient


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MLClient:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    return MLClient(object(), "subscription", "group", "workspace")


@pytest.mark.heavy
def test_it_submits_and_returns_the_run(client: MLClient) -> None:
    job = command(command="echo $RANK", tags={"a": "1"}, experiment_name="first")
    run = client.jobs.create_or_update(
        job, experiment_name="second", tags={"b": 2}, description="d", skip_validation=True
    )
    assert isinstance(run, Run)
    assert run.wait() == "SUCCEEDED"
    assert (run.name, run.studio_url, run.status) == (run.id, None, "SUCCEEDED")
    kept = worldsize.load_job(run.paths.job)
    assert (kept.experiment_name, kept.tags, kept.description) == ("second", {"b": "2"}, "d")
    assert job.experiment_name == "first", "the caller's job is left alone"


def test_keywords_are_read_as_those_of_a_job(client: MLClient, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="experiment_name: expected text, found 3"):
        client.create_or_update(command(command="true"), experiment_name=3)
    with pytest.raises(UsageError, match="no compute"):
        client.create_or_update(command(command="true"), compute="nowhere")
    with pytest.raises(UsageError, match=r"create_or_update\(\) needs a job, not Data"):
        client.create_or_update(Data(name="cifar"))  # type: ignore[arg-type]
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("names", "hint"),
    [
        ("compute.begin_create_or_update", "worldsize.toml"),
        ("data.create_or_update", "Input(path=…)"),
        ("environments.get", "Environment(conda_file=…)"),
        ("jobs.stream", "run.wait()"),
        ("jobs.download", "run.outputs"),
        ("jobs.list", "worldsize list"),
        ("online_endpoints.invoke", "open_run"),
    ],
)
def test_all_else_says_what_there_is_instead(client: MLClient, names: str, hint: str) -> None:
    with pytest.raises(UsageError, match="worldsize has no MLClient") as caught:
        found: object = client
        for name in names.split("."):
            found = getattr(found, name)
    assert hint in str(caught.value.hint)


def test_from_config_reads_no_file_and_copies_are_possible() -> None:
    assert isinstance(copy.deepcopy(MLClient.from_config(credential=None, path="/no/such")).jobs, object)
