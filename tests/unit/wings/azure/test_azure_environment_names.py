"""Names of Azure's environments, in the configuration's `environment_map` however they are spelt."""

from __future__ import annotations

import pytest

from worldsize.environment.resolve import resolve_environment
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.wings.azure.environment_names import name_spellings

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
