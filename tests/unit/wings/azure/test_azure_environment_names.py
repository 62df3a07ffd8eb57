"""Names of Azure's environments, in the configuration's `environment_map` however they are spelt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from worldsize.environment.resolve import resolve_environment
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.wings.azure.environment_names import image_spellings, name_spellings

AZURE = "azureml://registries/azureml/environments/acpt-2.2/versions/11"


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("azureml:env:3", "azureml:env:3"),
        ("azureml:env:3", "env:3"),
        ("azureml:env:3", "env"),
        ("azureml:env@latest", "azureml:env"),
        ("AzureML-acpt-2.2-cuda12@latest", "azureml:AzureML-acpt-*"),
        ("AzureML-acpt-2.2", "azureml-ACPT-*"),
        (AZURE, "acpt-2.2:11"),
        (AZURE, "acpt-*"),
    ],
)
def test_azures_names_are_mapped_however_they_are_spelt(name: str, pattern: str) -> None:
    config = Config(environments={"mine": {"conda": ("a",)}}, environment_map={pattern: "mine"})
    assert resolve_environment(name, config).spec == EnvironmentSpec(name="mine", conda=("a",))


def test_another_version_is_not_meant() -> None:
    config = Config(environment_map={"azureml:env:3": "/x"})
    found = resolve_environment("azureml:env:4", config)
    assert found.spec is None and "environment_map" in (found.notice or "")
    assert name_spellings("env@latest") == ["env@latest", "azureml:env@latest", "azureml:env", "env"]


IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04:20240304.v1"


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        (IMAGE, IMAGE),
        (IMAGE, "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04"),
        (IMAGE, "mcr.microsoft.com/azureml/*"),
        ("docker://python:3.11", "python"),
        ("host:5000/a/b", "host:5000/a/b"),
        ("host:5000/a/b@sha256:0123", "host:5000/a/b"),
    ],
)
def test_an_image_that_stands_alone_is_mapped(image: str, pattern: str, tmp_path: Path) -> None:
    config = Config(environments={"mine": {"conda": ("a",)}}, environment_map={pattern: "mine"})
    mine = EnvironmentSpec(name="mine", conda=("a",))
    assert resolve_environment({"image": image}, config).spec == mine
    file = tmp_path / "env.yml"
    file.write_text("name: azures\nimage: %s\n" % image)
    assert resolve_environment("file:%s" % file, config).spec == mine, "a file means what a mapping does"


@pytest.mark.parametrize("beside", [{"conda": ("b",)}, {"python": "3.11"}, {"variables": {"A": "b"}}])
def test_what_stands_beside_an_image_is_not_lost_to_a_mapping(beside: dict[str, Any]) -> None:
    config = Config(environments={"mine": {"conda": ("a",)}}, environment_map={"*": "mine"})
    found = resolve_environment({"image": "python", **beside}, config).spec
    assert found is not None and found.name is None and found.image == "python"


def test_a_port_is_no_tag() -> None:
    assert image_spellings("host:5000/a") == ["host:5000/a"]
    assert image_spellings("docker://a:1@sha256:0") == ["docker://a:1@sha256:0", "a:1", "a"]
