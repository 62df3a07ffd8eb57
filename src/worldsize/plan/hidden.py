"""The secrets of a run's plan, in a file that only its owner reads and that goes when the run is final.

secrets.json    {KEY: VALUE}: the keys of plan.json that have secrets in them, as they are; plan.json has them masked

It lies in the run's directory, or for all elements of an array in the array's. Standard library only: travels inside
agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from worldsize.errors import UsageError
from worldsize.plan.array import array_of
from worldsize.plan.files import read_file, read_json, write_json, write_once
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def read_whole_plan(paths: RunPaths) -> Plan:
    """The plan with its secrets, for whoever starts ranks. Raises OSError, ValueError; UsageError as `with_secrets`."""
    return with_secrets(Plan.from_json(read_file(paths.plan).decode("utf-8")), paths)


def with_secrets(plan: Plan, paths: RunPaths, environ: Mapping[str, str] = os.environ) -> Plan:
    """`plan` with what is hidden in it. A variable of a job that was submitted by hand, which has no file of secrets,
    is taken from `environ`.

    Raises OSError, ValueError; UsageError where secrets are gone.
    """
    if not plan.hidden:
        return plan
    from worldsize.trust.secrets import MASK

    secrets = read_secrets(paths)
    if secrets is None and plan.hidden == ("environment",):
        masked = [name for name, value in plan.environment.items() if MASK in value]
        if all(name in environ for name in masked):
            secrets = {"environment": {**plan.environment, **{name: environ[name] for name in masked}}}
    if secrets is None:
        what = "the run's secrets are gone: they are kept until it has ended"
        raise UsageError(what, secrets_file(paths), "worldsize requeue, or rerun, reads them anew")
    return Plan.from_json(json.dumps({**json.loads(plan.to_json()), **secrets, "hidden": []}))


def secrets_file(paths: RunPaths) -> str:
    return os.path.join(paths.root, "secrets.json")


def read_secrets(paths: RunPaths) -> Mapping[str, Any] | None:
    """The run's own, else its array's; None where there are none (any more)."""
    own = read_json(secrets_file(paths))
    if own is not None:
        return dict(own)
    place = array_of(paths)
    shared = read_json(secrets_file(RunPaths(place[0]))) if place else None
    return None if shared is None else dict(shared)


def write_secrets(paths: RunPaths, secrets: Mapping[str, Any]) -> None:
    """Raises OSError."""
    write_json(secrets_file(paths), secrets, private=True)


def write_result(paths: RunPaths, result: Mapping[str, Any], reserved: str = "") -> bool:
    """`write_once` of how a run, or an array, has ended; its secrets are needed no more."""
    written = write_once(paths.result, result, reserved)
    forget_secrets(paths)
    return written


def forget_secrets(paths: RunPaths) -> None:
    try:
        os.unlink(secrets_file(paths))
    except OSError:
        pass
