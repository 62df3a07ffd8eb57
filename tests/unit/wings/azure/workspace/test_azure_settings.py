"""A configured compute of type azureml: what its table may say, and what it means."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config
from worldsize.wings.azure.workspace.settings import WorkspaceSettings, workspace_settings

AZURE = """
[compute.cloud]
type = "azureml"
subscription_id = "1111"
resource_group = "my group"
workspace_name = "mine"
"""


def load(root: Path, text: str) -> Config:
    (root / "worldsize.toml").write_text(text)
    return load_config(str(root), {"HOME": str(root), "WORLDSIZE_SITE_CONFIG": ""})


def settings(root: Path, text: str) -> WorkspaceSettings:
    return workspace_settings(load(root, text).compute("cloud"))


def test_what_need_not_be_said(tmp_path: Path) -> None:
    found = settings(tmp_path, AZURE)
    assert found == ("1111", "my group", "mine", None, None, "https://management.azure.com", True)
    assert found.token_scope == "https://management.azure.com/.default"
    provider = "providers/Microsoft.MachineLearningServices"
    assert found.scope == "/subscriptions/1111/resourceGroups/my%%20group/%s/workspaces/mine" % provider


def test_all_that_can_be_said(tmp_path: Path) -> None:
    more = 'compute = "gpu-cluster"\nenvironment = "azureml:a@latest"\nagent = false\npython = "a/b"\n'
    more += 'endpoint = "https://management.usgovcloudapi.net/"\n'
    found = settings(tmp_path, AZURE + more)
    assert found[3:] == ("gpu-cluster", "azureml:a@latest", "https://management.usgovcloudapi.net", False)
    assert found.token_scope == "https://management.usgovcloudapi.net/.default"
    assert load(tmp_path, AZURE + more).compute("cloud").python == "a/b", "a path in the job's environment"


@pytest.mark.parametrize("key", ["subscription_id", "resource_group", "workspace_name"])
def test_what_must_be_said(tmp_path: Path, key: str) -> None:
    lines = [line for line in AZURE.splitlines() if not line.startswith(key)]
    with pytest.raises(ConfigError, match="compute cloud has no `%s`" % key) as caught:
        settings(tmp_path, "\n".join(lines))
    assert caught.value.where == "compute.cloud." + key and str(caught.value.hint).startswith(key + " = ")


@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("http://management.azure.com", "http://management.azure.com is not an https address"),
        ("management.azure.com", "is not an https address"),
        ("https://", "is not an https address"),
        ("https://me:hunter2@management.azure.com", "a login in an address"),
        ("http://me:hunter2@host", "…@host is not an https address"),
    ],
)
def test_where_tokens_do_not_go(tmp_path: Path, endpoint: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, AZURE + 'endpoint = "%s"\n' % endpoint)
    assert says in str(caught.value) and "compute.cloud.endpoint" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('workspace = "mine"', "workspace_name"),
        ("agent = 'no'", "expected true or false"),
        ("compute = ''", "compute"),
        ("client_secret = 'x'", "no file stores credentials: `az login`"),
        ("access_token = 'x'", "no file stores credentials: `az login`"),
    ],
)
def test_what_such_a_compute_does_not_know_is_refused(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, AZURE + line + "\n")
    assert says in str(caught.value) and "worldsize.toml:7" in str(caught.value)


def test_a_projects_file_that_nobody_trusts_names_no_endpoint(tmp_path: Path) -> None:
    """It would be sent the token."""
    from worldsize.jobspec.config.compute_keys import is_harmless

    assert not any(is_harmless(key) for key in ("endpoint", "subscription_id", "workspace_name"))
