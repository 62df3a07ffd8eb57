"""What a run directory must hold before its agents start, code apart: where each file comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.plan.launch import Plan
from worldsize.service.inrank import package_sources, packages_of
from worldsize.spec.job import Job

HOOK = "inrank/sitecustomize.py"


def hook_source() -> str:
    """The exception hook's path in this package."""
    return os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "inrank", "sitecustomize.py")


def travelling(job: Job, plan: Plan, home: str) -> Mapping[str, bytes]:
    """The files by their names in the run directory."""
    from worldsize.environment.bundle import agent_bundle
    from worldsize.service.secrets import hide, masked_text

    script: Mapping[str, bytes] = {}
    if plan.batch is not None:
        from worldsize.service.batch import script_files

        script = script_files(job, plan.batch.virtual)
    return {
        **script,
        "job.yml": masked_text(job, plan).encode(),
        "plan.json": hide(plan)[0].to_json().encode(),
        HOOK: _read(hook_source()),
        **{name: _read(source) for name, source in package_sources(packages_of(job)).items()},
        "agent.pyz": _read(agent_bundle(os.path.join(home, "cache"), small=True)),
    }


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
