"""What Azure's own SDK makes of files of jobs and components: one process of its environment for any number of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]

# The names that the SDK resolves against a workspace, code and environment, stand in its body as these words.
PROGRAM = r"""
import json, sys
from azure.ai.ml import load_component, load_job
from azure.ai.ml._restclient.arm_ml_service._utils.model_base import SdkJSONEncoder

def body(path):
    try:
        job = load_job(path)._to_job()
        job.code = "CODE" if job.code else None
        if not isinstance(job.environment, str):
            job.environment = "ENVIRONMENT"
        return json.loads(json.dumps(job._to_rest_object(), cls=SdkJSONEncoder, exclude_readonly=True))
    except Exception as error:
        return {"refused": "%s: %s" % (type(error).__name__, str(error)[:2000])}

def component(path):
    try:
        found = load_component(path)
        result = found._validate()
        if not result.passed:
            return {"refused": str(result.error_messages)[:2000]}
        return json.loads(json.dumps(found._to_dict(), default=str))
    except Exception as error:
        return {"refused": "%s: %s" % (type(error).__name__, str(error)[:2000])}

for line in sys.stdin:
    kind, paths = json.loads(line)
    read = {"job": body, "component": component}[kind]
    print("ANSWER" + json.dumps([read(path) for path in paths]), flush=True)
"""


def sdk_python() -> str | None:
    """The interpreter of the environment that has azure-ai-ml; None without one."""
    own = str(ROOT / ".venv-azure" / "bin" / "python")
    return next(
        (path for path in (os.environ.get("WORLDSIZE_AZURE_PYTHON"), own) if path and os.path.exists(path)), None
    )


class BodyOracle:
    """A process that stays, since importing the SDK takes seconds."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def bodies(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        """The body of each job file; `{"refused": why}` for one that the SDK refuses."""
        return self._ask("job", paths)

    def components(self, paths: Sequence[str]) -> list[dict[str, Any]]:
        """Each component file as the SDK reads it; `{"refused": why}` for one that it refuses."""
        return self._ask("component", paths)

    def _ask(self, kind: str, paths: Sequence[str]) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([kind, list(paths)]) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("ANSWER"):
                found: list[dict[str, Any]] = json.loads(line[6:])
                return found
        raise AssertionError("the SDK's process has ended")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def with_defaults(body: dict[str, Any]) -> dict[str, Any]:
    """The body of the SDK as the service understands it: with the published defaults, variables as text, and
    nothing empty."""
    properties = {key: value for key, value in body["properties"].items() if value not in (None, {}, [])}
    properties.setdefault("resources", {})
    properties["resources"].setdefault("instanceCount", 1)
    distribution = properties.get("distribution")
    if distribution and distribution["distributionType"] in ("PyTorch", "Mpi"):
        distribution.setdefault("processCountPerInstance", 1)
    variables = properties.get("environmentVariables", {})
    for name, value in variables.items():
        variables[name] = value if isinstance(value, str) else json.dumps(value)
    for service in properties.get("services", {}).values():
        if not service.get("properties", True):
            del service["properties"]
    properties["resources"] = {
        key: value for key, value in properties["resources"].items() if value not in (None, [], {})
    }
    return {**body, "properties": properties}


if __name__ == "__main__":
    oracle = BodyOracle(sdk_python() or sys.executable)
    print(json.dumps(oracle.bodies(sys.argv[1:]), indent=1))
    oracle.close()
