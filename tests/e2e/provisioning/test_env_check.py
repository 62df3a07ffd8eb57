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
    assert result.lines[0].startswith("bad ") and result.lines[0].endswith("(add it to the environment)")
    assert "env.imports" in result.lines[0] and "nowhere: cannot be imported: ModuleNotFoundError" in result.lines[0]
    node, version = os.uname().nodename, "%d.%d.%d" % sys.version_info[:3]
    assert result.lines[1].split() == ["ok", "env.python", node + ":", version, "in", prefix]
    assert result.lines[-1].startswith(node + ": bad; ")
    fine = cli("env", "check", "./env", "--import", "json", "-w", "1", "-o", "json")
    value = json.loads(fine.out)
    assert fine.code == 0 and value["verdict"] == "ok" and (value["run"], value["nodes"]) == (None, [node])
    rows = {row["id"]: row for row in value["rows"]}
    assert rows["env.imports"]["what"] == "json" and rows["env.imports"]["value"]


def test_an_environment_that_is_not_built(cli: Cli) -> None:
    """Found by review: nodes executed what somebody else had made in its place."""
    cli.write("job.yml", "command: 'true'\nenvironment: {name: torch, build: [{run: 'true'}]}\n")
    refused = cli("env", "check", "job.yml")
    assert refused.code == 2 and "is not built" in refused.err and "worldsize env build" in refused.err, refused


@pytest.mark.training
def test_the_current_python_has_what_is_known_to_matter(cli: Cli) -> None:
    torch = pytest.importorskip("torch")
    value = json.loads(cli("env", "check", "-o", "json", timeout=120).out)
    rows = {(row["id"], row["what"]): row for row in value["rows"]}
    assert rows["env.imports", "torch"]["value"]
    if torch.version.cuda is None:
        assert rows["env.torch", "torch"]["value"] == "a build without CUDA"
    else:
        assert {"env.torch", "env.driver"} & {row["id"] for row in value["rows"]}


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
