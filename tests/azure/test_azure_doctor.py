"""The doctor with a compute in a workspace: what is known here, and with --net what the service answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from azureml_double.double import RESOLVER, Double
from azureml_double.fixtures import compute_table, sign_in
from driver import Cli


@pytest.fixture
def cli(azureml: Double, tmp_path: Path) -> Cli:
    cli = Cli(str(tmp_path))
    cli.environ.update(sign_in(azureml))
    cli.environ["PYTHONPATH"] = os.pathsep.join((RESOLVER, cli.environ["PYTHONPATH"]))
    cli.write("worldsize.toml", compute_table(azureml, "cloud"))
    return cli


def value_of(cli: Cli, *words: str, **environ: str) -> tuple[str, str]:
    found = json.loads(cli("doctor", "-o", "json", *words, timeout=100, **environ).out)
    (row,) = [row for row in found["rows"] if row["id"] == "compute.cloud"]
    return row["verdict"], row["value"]


def test_the_service_is_asked_only_with_net(cli: Cli) -> None:
    assert value_of(cli) == ("ok", "type azureml")
    assert value_of(cli, "--net") == ("ok", "type azureml, at most 4 nodes")


@pytest.mark.exhaustive
def test_a_sign_in_that_is_refused_is_bad(cli: Cli) -> None:
    verdict, value = value_of(cli, "--net", AZURE_CLIENT_SECRET="wrong")
    assert verdict == "bad" and "AADSTS7000215" in value
