"""Scripts of Azure's own client, in the environment that has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from azureml_double.double import Double

ROOT = Path(__file__).parents[2]
CLIENT = Path(__file__).with_name("sdk_client.py")


class Told(NamedTuple):
    """values   what the script told; output   all that it printed"""

    values: dict[str, Any]
    output: str


@cache
def interpreter() -> str | None:
    """The Python that has azure-ai-ml: WORLDSIZE_AZURE_PYTHON, else that of .venv-azure, else this one."""
    own = str(ROOT / ".venv-azure" / "bin" / "python")
    probe = "import importlib.util as u, sys; sys.exit(not u.find_spec('azure.ai.ml'))"
    for python in (os.environ.get("WORLDSIZE_AZURE_PYTHON"), own, sys.executable):
        if python and os.path.exists(python):
            found = subprocess.run([python, "-c", probe], capture_output=True, check=False)
            if found.returncode == 0:
                return python
    return None


def run_script(double: Double, script: str, folder: Path) -> Told:
    """Run it; what it told. The test is skipped where there is no client, and fails with the script's own words."""
    python = interpreter()
    if python is None:
        pytest.skip("no interpreter with azure-ai-ml: install requirements/azure.txt into .venv-azure")
    folder.mkdir(exist_ok=True)
    place = {
        "DOUBLE_WORKSPACE": "/".join((double.subscription, double.group, double.workspace)),
        "DOUBLE_RESULTS": str(folder),
    }
    environ = {**os.environ, **double.environ(), **place}
    done = subprocess.run(
        [python, str(CLIENT), script], env=environ, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Told(json.loads(done.stdout.splitlines()[-1]), done.stdout)
