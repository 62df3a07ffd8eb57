"""Environments in worldsize.toml: named ones, what Azure's names mean here, channels; the nearest file wins by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config

USER = """\
envs_dir = "~/envs"

[conda]
channels = ["file:///mirror/main"]
channel_alias = "file:///mirror"

[environment]
nlp = "requirements.txt"

[environment.torch]
conda = ["python=3.11"]
pip = "pip.txt"

[environment_map]
"azureml:AzureML-pytorch-*" = "torch"
"""
PROJECT = """\
[environment.torch]
python = "./venv"

[environment_map]
"azureml:mine:3" = "env/environment.yml"

[compute.lab]
type = "slurm"
envs_dir = "envs"
virtual_packages = ["__cuda=12.4", "__glibc=2.28"]
"""


def load(root: Path, user: str = "", project: str = "") -> Config:
    for path, text in ((root / ".config" / "worldsize", user), (root / "project", project)):
        path.mkdir(parents=True, exist_ok=True)
        (path / "worldsize.toml").write_text(text)
    environ = {"HOME": str(root), "WORLDSIZE_SITE_CONFIG": str(root / "none")}
    return load_config(str(root / "project"), environ)


def test_named_environments_and_where_they_are_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = load(tmp_path, USER)
    user = str(tmp_path / ".config" / "worldsize")
    assert config.envs_dir == str(tmp_path / "envs")
    assert config.environments == {
        "nlp": user + "/requirements.txt",
        "torch": {"conda": ("python=3.11",), "pip": ("-r %s/pip.txt" % user,)},
    }
    assert config.environment_map == {"azureml:AzureML-pytorch-*": "torch"}
    assert config.conda == {"channels": ("file:///mirror/main",), "channel_alias": "file:///mirror"}


def test_the_nearest_file_wins_name_by_name(tmp_path: Path) -> None:
    config = load(tmp_path, USER, PROJECT)
    project = str(tmp_path / "project")
    assert config.environments["torch"] == {"python": project + "/venv"}
    assert config.environments["nlp"].endswith("/worldsize/requirements.txt")
    assert config.environment_map["azureml:mine:3"] == project + "/env/environment.yml"
    assert config.origins["environment.torch"] == project + "/worldsize.toml"
    lab = config.compute("lab")
    assert (lab.envs_dir, lab.virtual_packages) == (project + "/envs", ("__cuda=12.4", "__glibc=2.28"))


def test_without_any_nothing_changes(tmp_path: Path) -> None:
    config = load(tmp_path)
    assert (config.environments, config.environment_map, config.conda, config.envs_dir) == ({}, {}, {}, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[environment.a]\ncondaa = []\n", "did you mean 'conda'"),
        ("[environment]\na = 3\n", "environment.a: expected text"),
        ("environment = 'a'\n", "environment: expected a mapping"),
        ("[environment]\n'a b' = 'x'\n", "is not an environment's name"),
        ("[conda]\nchannel = ['x']\n", "did you mean 'channels'"),
        ("[environment_map]\na = ['x']\n", "environment_map.a: expected text"),
        ("[compute.local]\nvirtual_packages = '__cuda=12'\n", "virtual_packages: expected a list"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, project=text)
    assert said in str(caught.value)
    assert "worldsize.toml:" in str(caught.value)
