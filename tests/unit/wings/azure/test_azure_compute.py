"""A compute of type azureml is read, and refused in one sentence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from in_process import InProcess

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.service.computes import compute_of_run, open_compute


def test_none_can_be_opened_yet() -> None:
    config = Config(computes={"cloud": ComputeSettings("cloud", "azureml")})
    with pytest.raises(ConfigError, match="cannot be used yet") as caught:
        open_compute(config, "cloud", {})
    assert caught.value.hint == "this release runs on: local, slurm, hpcpack"
    with pytest.raises(ConfigError, match="does not know"):
        compute_of_run("/nowhere", {"type": "azureml"}, "cloud", {})


def test_a_run_on_one_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    cli = InProcess(str(tmp_path))
    cli.write("worldsize.toml", 'default_compute = "lab"\n[compute.lab]\ntype = "azureml"\n')
    result = cli("run", "--", "true")
    assert (result.code, result.out) == (2, "")
    assert "azureml" in result.err and "lab" in result.err and "Traceback" not in result.err
    assert not os.path.exists(cli.home)
