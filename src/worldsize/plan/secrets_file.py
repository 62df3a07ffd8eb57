"""The secrets of a run's plan, in a file that only its owner reads and that is removed when the run is final.

secrets.json    {KEY: VALUE}: the keys of plan.json with secrets in them, unmasked; in plan.json they are masked

The file is in the run's directory, or, for all elements of an array, in the array's.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from worldsize.common.atomic_files import read_file, try_unlink, write_json, write_once
from worldsize.common.json_values import read_record
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.plan.array import array_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

VARIABLES = frozenset(("environment", "activated"))
"""Keys of a plan that contain variables. Their values are read again if the secrets are gone."""


def read_unmasked_plan(paths: RunPaths) -> Plan:
    """Read the plan.json of the run in `paths` and return the Plan with its secrets restored, for a process that starts
    ranks. Raise UsageError as `with_secrets` does. Raise OSError or ValueError."""
    return with_secrets(read_masked_plan(paths), paths)


def read_masked_plan(paths: RunPaths) -> Plan:
    """Read the plan.json of the run in `paths` and return the Plan, in which secrets are masked. Raise OSError or
    ValueError."""
    return Plan.from_json(read_file(paths.plan).decode("utf-8"))


def with_secrets(plan: Plan, paths: RunPaths, environ: Mapping[str, str] = os.environ) -> Plan:
    """Return `plan` with its masked values restored from the file of secrets of the run, or its array. A job that was
    submitted by hand has no such file; the values of its variables are read from `environ`.

    Raise UsageError if the secrets are gone. Raise OSError or ValueError.
    """
    if not plan.hidden:
        return plan
    secrets = read_secrets(paths)
    known = secrets is None and VARIABLES.issuperset(plan.hidden)
    if known and all(name in environ for name in masked_variables(plan)):
        secrets = unmasked_variables(plan, environ)
    if secrets is None:
        what = "the run's secrets were removed: they are kept until it has ended"
        raise UsageError(what, secrets_file(paths), "worldsize requeue, or rerun, reads them again")
    return Plan.from_json(json.dumps({**json.loads(plan.to_json()), **secrets, "hidden": []}))


def masked_variables(plan: Plan) -> list[str]:
    """Return the names of the environment variables in `plan` whose values are masked since they are secrets."""
    from worldsize.trust.secrets import MASK

    return [name for key in sorted(VARIABLES) for name, value in getattr(plan, key).items() if value and MASK in value]


def plan_secret_values(plan: Plan) -> list[str]:
    """Return the values of those variables and inputs of `plan` that are secrets, to judge by their names or because
    the job declares them so. Callers mask these values wherever else they occur."""
    from worldsize.trust.secrets import secret_values

    activated = {name: value for name, value in plan.activated.items() if value}
    found = (*secret_values(activated, plan.secrets), *secret_values(plan.environment, plan.secrets))
    return list(dict.fromkeys(found))  # a variable may have another value in each


def unmasked_variables(plan: Plan, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of `plan` that contain masked variables (`environment`, `activated`), with the values of these
    variables taken from `environ`, which contains all of `masked_variables`."""
    names = masked_variables(plan)
    return {
        key: {name: environ[name] if name in names else value for name, value in getattr(plan, key).items()}
        for key in VARIABLES.intersection(plan.hidden)
    }


def secrets_file(paths: RunPaths) -> str:
    return os.path.join(paths.root, "secrets.json")


def read_secrets(paths: RunPaths) -> Mapping[str, Any] | None:
    """Read the secrets.json of the run in `paths`, else that of its array, and return the unmasked values by the keys
    of the plan; None if there is no file (any more). Raise DamagedRun if the file cannot be understood. Raise OSError.
    """
    own = read_record(secrets_file(paths), dict)
    place = array_of(paths)
    return own if own is not None or place is None else read_record(secrets_file(RunPaths(place[0])), dict)


def write_secrets(paths: RunPaths, secrets: Mapping[str, Any]) -> None:
    """Write `secrets`, the unmasked values by the keys of the plan, to the run's secrets.json, which only its owner can
    read. Raise OSError."""
    write_json(secrets_file(paths), secrets, private=True)


def write_result(paths: RunPaths, result: Mapping[str, Any], reserved: str = "") -> bool:
    """Write the final state of a run or an array, `result`, to its result.json by `write_once`, and return what that
    returns. The run's secrets, which are no longer needed, are removed first, before any process can read that the run
    has ended."""
    remove_secrets(paths)
    return write_once(paths.result, result, reserved)


def remove_secrets(paths: RunPaths) -> None:
    try_unlink(secrets_file(paths))
