"""What `env show` tells of an environment that is not built."""

from __future__ import annotations

from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep
from worldsize.wings.environments.cli.shelf import planned_description


def test_what_would_be_built_and_no_secret() -> None:
    spec = EnvironmentSpec(
        name="nlp", python="3.11", channels=("conda-forge",), conda=("numpy",),
        pip=("torch==2.4", "--index-url https://me:hunter2hunter2@index.example/simple"),
        fetch=(FetchStep("https://x.example/a.tgz", "0" * 64),), steps=(BuildStep(run="make", name="nccl"),),
    )  # fmt: skip
    found = planned_description(spec)
    assert list(found) == ["name", "python", "channels", "conda", "pip", "steps"]
    assert found["python"] == ["3.11"] and found["conda"] == ["numpy"] and found["pip"][0] == "torch==2.4"
    assert len(found["steps"]) == 2 and "hunter2" not in str(found)


def test_nothing_is_said_of_what_is_left_open() -> None:
    assert planned_description(EnvironmentSpec()) == {}
