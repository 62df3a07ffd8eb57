"""What a build leaves on the disk: nothing that others can read of what it was told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from driver import Cli

TOKEN = "canaryAAAA1111xyz"
JOB = """\
command: "true"
environment:
  name: own
  python: ">=3.8"
  variables: {HF_TOKEN: %s}
  build:
  - name: one
    run: |
      echo made; %s
    variables: {API_KEY: %s}
"""


def holding(root: Path) -> list[str]:
    """The files with the secret in them, but for the job that says it."""
    found = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in found if path.name != "job.yml" and TOKEN.encode() in path.read_bytes()]


@pytest.mark.exhaustive(unless=["true"])
@pytest.mark.parametrize("then", ["true", "false"])
def test_what_steps_on_a_node_were_told(cli: Cli, tmp_path: Path, then: str) -> None:
    """Found by review: the order, with all secrets of the steps, stayed in the environment, and went into packs."""
    cli.write("job.yml", JOB % (TOKEN, then, TOKEN) + "  build_on: compute\n")
    built = cli("env", "build", "job.yml")
    assert (built.code == 0) == (then == "true"), built
    assert not list(tmp_path.rglob("order.json")) and not list(tmp_path.rglob("steps.json"))
    assert [(run["name"].split(" ")[0], run["ranks"]) for run in cli.json("list")] == [("build", 1)]
    if then == "true":
        cli.ok("env", "pack", "own", "-o", str(tmp_path / "own.tar.gz"))
        assert os.stat(tmp_path / "own.tar.gz").st_mode & 0o777 == 0o600
        assert holding(Path(cli.home, "envs")) == []


@pytest.mark.exhaustive(unless=["true-login", "false-compute"])
@pytest.mark.parametrize("where", ["login", "compute"])
@pytest.mark.parametrize("then", ["true", "false"])
def test_the_log_of_a_build(cli: Cli, where: str, then: str) -> None:
    """Found by review: everybody could read it, though nobody else the environment."""
    cli.write("job.yml", JOB % (TOKEN, then, TOKEN) + "  build_on: %s\n" % where)
    before = os.umask(0)
    try:
        cli("env", "build", "job.yml")
    finally:
        os.umask(before)
    logs = list(Path(cli.home, "envs").rglob("*.log"))
    assert logs
    for path in logs:
        assert path.stat().st_mode & 0o077 == 0, path
