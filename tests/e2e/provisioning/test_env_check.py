"""env check, as a user sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from driver import Cli


def test_an_environment_on_this_machine(cli: Cli) -> None:
    prefix = os.path.join(cli.project, "env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    result = cli("env", "check", "./env", "--import", "json,nowhere")
    assert result.code == 1, result
    head, row, error, mend = result.lines
    assert head.split() == ["NODES", "PYTHON", "GLIBC", "DRIVER", "GPUS", "json", "nowhere"]
    assert row.split()[:2] == [os.uname().nodename, "%d.%d.%d" % sys.version_info[:3]]
    assert "nowhere cannot be imported: ModuleNotFoundError" in error and mend == "  → add it to the environment"
    fine = cli("env", "check", "./env", "--import", "json", "-w", "1", "-o", "json")
    value = json.loads(fine.out)
    assert fine.code == 0 and value["ok"] and value["problems"] == []
    assert value["nodes"][0]["prefix"] == prefix and value["nodes"][0]["imports"]["json"]["version"]


def test_an_environment_that_is_not_built(cli: Cli) -> None:
    """Found by review: nodes executed what somebody else had made in its place."""
    cli.write("job.yml", "command: 'true'\nenvironment: {name: torch, build: [{run: 'true'}]}\n")
    refused = cli("env", "check", "job.yml")
    assert refused.code == 2 and "is not built" in refused.err and "worldsize env build" in refused.err, refused


@pytest.mark.training
def test_the_current_python_has_what_is_known_to_matter(cli: Cli) -> None:
    pytest.importorskip("torch")
    value = json.loads(cli("env", "check", "-o", "json", timeout=120).out)
    assert value["nodes"][0]["imports"]["torch"]["version"] and value["nodes"][0]["torch"]["cuda"] is None


def test_an_environment_that_a_node_does_not_have(cli: Cli) -> None:
    os.makedirs(os.path.join(cli.project, "env/bin"))
    os.symlink("/nowhere/python3.11", os.path.join(cli.project, "env/bin/python"))
    cli.write("env/pyvenv.cfg", "home = /nowhere\n")
    refused = cli("env", "check", "./env")
    assert refused.code == 2 and "no bin/python" in refused.err
    os.unlink(os.path.join(cli.project, "env/bin/python"))
    cli.write("env/bin/python", "#!/nowhere/python3.11\n")
    os.chmod(os.path.join(cli.project, "env/bin/python"), 0o755)
    result = cli("env", "check", "./env")
    assert result.code == 1 and "worldsize env pack" in result.out, result
