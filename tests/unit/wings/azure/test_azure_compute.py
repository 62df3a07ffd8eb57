"""A compute of type azureml is read, and refused in one sentence."""

from __future__ import annotations

import pytest

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
