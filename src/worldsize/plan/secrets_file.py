"""The secrets of a run's plan, in a file that only its owner reads and that is removed when the run is final.

secrets.json    {KEY: VALUE}: the keys of plan.json that have secrets in them, as they are; plan.json has them masked

The file lies in the run's directory, or for all elements of an array in the array's.
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
"""The keys of a plan that hold variables: their values are read anew where the secrets are gone."""


def read_unmasked_plan(paths: RunPaths) -> Plan:
    """Return the plan with its secrets, for whoever starts ranks. Raises OSError, ValueError; UsageError as
    `with_secrets`."""
    return with_secrets(read_masked_plan(paths), paths)


def read_masked_plan(paths: RunPaths) -> Plan:
    """Return the plan without its secrets. Raises OSError, ValueError."""
    return Plan.from_json(read_file(paths.plan).decode("utf-8"))


def with_secrets(plan: Plan, paths: RunPaths, environ: Mapping[str, str] = os.environ) -> Plan:
    """`plan` with what is hidden in it. A job that was submitted by hand has no file of secrets: its variables are
    taken from `environ`.

    Raises OSError, ValueError; UsageError where secrets are gone.
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
    """The names of the variables whose values are hidden."""
    from worldsize.trust.secrets import MASK

    return [name for key in sorted(VARIABLES) for name, value in getattr(plan, key).items() if value and MASK in value]


def plan_secret_values(plan: Plan) -> list[str]:
    """Return the plan's values that are secrets by their names, wherever else they stand: of variables, and of inputs,
    which are some."""
    from worldsize.trust.secrets import secret_values

    activated = {name: value for name, value in plan.activated.items() if value}
    found = (*secret_values(activated, plan.secrets), *secret_values(plan.environment, plan.secrets))
    return list(dict.fromkeys(found))  # a variable may have another value in each


def unmasked_variables(plan: Plan, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the plan's keys with hidden variables, these as in `environ`, which has all of `masked_variables`."""
    names = masked_variables(plan)
    return {
        key: {name: environ[name] if name in names else value for name, value in getattr(plan, key).items()}
        for key in VARIABLES.intersection(plan.hidden)
    }


def secrets_file(paths: RunPaths) -> str:
    return os.path.join(paths.root, "secrets.json")


def read_secrets(paths: RunPaths) -> Mapping[str, Any] | None:
    """Return the run's own secrets, else its array's; None where there are none (any more). DamagedRun, OSError."""
    own = read_record(secrets_file(paths), dict)
    place = array_of(paths)
    return own if own is not None or place is None else read_record(secrets_file(RunPaths(place[0])), dict)


def write_secrets(paths: RunPaths, secrets: Mapping[str, Any]) -> None:
    """Write the run's secrets, for their owner alone. Raises OSError."""
    write_json(secrets_file(paths), secrets, private=True)


def write_result(paths: RunPaths, result: Mapping[str, Any], reserved: str = "") -> bool:
    """Write how a run, or an array, has ended, by `write_once`. Its secrets are needed no more, and are removed before
    anybody can read that it has ended."""
    remove_secrets(paths)
    return write_once(paths.result, result, reserved)


def remove_secrets(paths: RunPaths) -> None:
    try_unlink(secrets_file(paths))
