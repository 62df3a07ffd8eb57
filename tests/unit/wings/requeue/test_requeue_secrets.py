"""What `requeue` read anew of a run's secrets goes again where the compute does not take the run."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.errors import ConfigError, StorageError, SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import read_secrets
from worldsize.service.secrets import split_secrets
from worldsize.state.records import Observation, RunState, Status
from worldsize.wings.requeue.requeue import requeue


def run_of(tmp_path: Path, ask: Any) -> Any:
    """A run that has failed, with a secret variable."""
    whole = Plan(
        "r", "train", "c", 1.0, 0, node_major_layout(1, 1), ("true",), {"HF_TOKEN": "canary"}, secrets=("HF_TOKEN",)
    )
    plan, _ = split_secrets(whole, ["canary"])
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.attempt_dir)
    write_json(paths.result, {"summary": {}})
    compute = SimpleNamespace(
        capabilities={"requeue"}, observe=lambda handles: [Observation("ended", restarts=0)], requeue=ask
    )
    return SimpleNamespace(
        id="r", paths=paths, plan=plan, compute=compute, refuse_foreign=lambda verb: None,
        look=lambda: Status(RunState.FAILED, "EXIT_CODE", 3), native=lambda: {"job": "1"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SubmitAgain("Slurm cannot be reached now"), SubmitAgain),
        (SubmitRejected("no such job"), SubmitRejected),
        (ConfigError("no such user", "compute.c.user"), ConfigError),
        (OSError(28, "full"), StorageError),
    ],
)
def test_where_it_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: type[WorldsizeError]
) -> None:
    """Found by review: with a scheduler that could not be reached they stayed for ever."""
    monkeypatch.setenv("HF_TOKEN", "canary")
    seen: list[object] = []

    def ask(handle: object, attempt: int) -> None:
        seen.append(read_secrets(run.paths))
        raise error

    run = run_of(tmp_path, ask)
    with pytest.raises(told):
        requeue(run)
    assert seen == [{"environment": {"HF_TOKEN": "canary"}}], "a scheduler that takes it starts it with them"
    assert read_secrets(run.paths) is None
    if told is not StorageError:
        assert os.path.exists(run.paths.result)


def test_where_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "canary")
    run = run_of(tmp_path, lambda handle, attempt: None)
    assert requeue(run) == 1
    assert read_secrets(run.paths) == {"environment": {"HF_TOKEN": "canary"}}
    assert not os.path.exists(run.paths.result)
