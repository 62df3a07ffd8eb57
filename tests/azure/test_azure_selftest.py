"""What `make test-azure` does in a workspace, on the double: all that is known of it stands in a worldsize.toml and in
the variables of the sign-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from azureml_double.double import RESOLVER, Double
from azureml_double.fixtures import compute_table, sign_in
from driver import Cli
from scripts.testing.workspace import main

REPOSITORY = Path(__file__).parents[2]
SOME = "test_cancel_while_it_runs or test_the_first_failure or test_what_is_left_behind or test_modules"


@pytest.fixture
def cli(azureml: Double, tmp_path: Path) -> Cli:
    cli = Cli(str(tmp_path))
    cli.environ.update(sign_in(azureml))
    cli.environ["PYTHONPATH"] = os.pathsep.join((RESOLVER, cli.environ["PYTHONPATH"]))
    cli.write("worldsize.toml", compute_table(azureml, "cloud"))
    return cli


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_selftest_by_configuration_alone(cli: Cli, azureml: Double) -> None:
    result = cli("selftest", "--compute", "cloud", "--lanes", "2", "-k", SOME, timeout=500)
    assert result.code == 0, result
    assert result.lines[0].startswith("3 passed, 0 failed, 1 skipped, 0 not run in "), result
    assert result.lines[1] == "left behind: nothing" and os.listdir(cli.home) == []
    (name,) = (name for name in os.listdir(cli.project) if name.endswith(".json"))
    text = cli.read_project(name)
    assert json.loads(text)["compute"] == {"name": "cloud", "type": "azureml", "simulated": False}
    secrets = (azureml.subscription, azureml.group, azureml.workspace, azureml.client_id, azureml.client_secret)
    assert not [secret for secret in secrets if secret in text]


@pytest.mark.exhaustive
def test_a_sign_in_that_is_refused_is_one_sentence(cli: Cli) -> None:
    result = cli("selftest", "--compute", "cloud", AZURE_CLIENT_SECRET="wrong", timeout=100)
    assert result.code != 0 and "AADSTS7000215" in result.err and "az login" in result.err, result
    assert "passed" not in result.out and os.listdir(cli.home) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_the_tests_of_the_compute_find_the_workspace_themselves(cli: Cli) -> None:
    """As many as have neither the double nor a fault of it."""
    environ = {**cli.environ, "WORLDSIZE_TEST_AZURE": os.path.join(cli.project, "worldsize.toml")}
    environ["WORLDSIZE_COMPUTE"] = "cloud"
    words = ["-q", "-p", "no:cacheprovider", "--tier", "all", "tests/azure", "-k", "dry_run or two_nodes or faults"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=REPOSITORY, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr


def test_without_a_workspace_it_says_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["", ""]) == main(["worldsize.toml"]) == main(["no/such/file", "cloud"]) == 2
    said = capsys.readouterr().err
    assert "COMPUTE=cloud" in said and "WORLDSIZE_TEST_AZURE" in said and "az login" in said
