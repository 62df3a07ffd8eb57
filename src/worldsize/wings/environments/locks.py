"""Lock files of environments: every package, without what is of one machine alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from worldsize.common.atomic_files import printable_text, read_json
from worldsize.common.json_values import refuse_newer, tuple_of
from worldsize.errors import UsageError
from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep
from worldsize.trust.secrets import MASK
from worldsize.wings.environments.sources import LOCK_FORMAT, merge_specs

_PACKAGE_KEYS = {
    "conda": frozenset(("name", "version", "url", "file_name", "size", "sha256", "md5", "channel")),
    "pip": frozenset(("name", "version", "url", "hashes")),
}
"""What a lock file says of each package, at least."""
_LOCAL_KEYS = ("prefix", "base", "upon", "created", "took", "host", "clobbered", "steps")


def read_lock(path: str) -> dict[str, Any]:
    """Raises UsageError for what is no lock file that this worldsize can read."""
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}", printable_text(path)) from None
    if not isinstance(value, dict) or value.get("format") != LOCK_FORMAT:
        raise UsageError("is no lock file of an environment", printable_text(path), "`worldsize env lock` writes one")
    refuse_newer(value, 1, printable_text(path))
    if value.get("version") != 1:
        raise UsageError("is of no known format", printable_text(path), "`worldsize env lock` writes one")
    for kind, needed in _PACKAGE_KEYS.items():
        rows = value.get(kind)
        if not isinstance(rows, list) or not all(isinstance(row, dict) and needed <= row.keys() for row in rows):
            what = f"is not whole: {kind}: expected packages with {', '.join(sorted(needed))}"
            raise UsageError(what, printable_text(path), "`worldsize env lock` writes it anew")
    return value


def with_lock_spec(spec: EnvironmentSpec, lock: Mapping[str, Any]) -> EnvironmentSpec:
    """What a lock's environment was made of, beside its packages, and what `spec` says in addition. Variables whose
    values were masked are left out."""
    inner = spec_from_json(lock.get("spec") or {})
    variables = {name: value for name, value in inner.variables.items() if MASK not in value}
    return merge_specs(spec._replace(file=None), inner._replace(variables=variables, file=None))


def masked_lock_variables(lock: Mapping[str, Any]) -> list[str]:
    """The names of a lock's variables whose values were masked, and which are left out."""
    variables = spec_from_json(lock.get("spec") or {}).variables
    return [name for name, value in variables.items() if MASK in value]


def spec_from_json(value: Mapping[str, Any]) -> EnvironmentSpec:
    """A spec from what JSON holds of it; parts that this worldsize does not know are left out."""
    said = dict(value)
    said["fetch"] = tuple(tuple_of(FetchStep, each) for each in said.get("fetch", ()))
    said["steps"] = tuple(tuple_of(BuildStep, _lists_to_tuples(each)) for each in said.get("steps", ()))
    known = {name: item for name, item in _lists_to_tuples(said).items() if name in EnvironmentSpec._fields}
    return EnvironmentSpec(**known)


def _lists_to_tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that they were."""
    return {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}


def lock_text(description: Mapping[str, Any]) -> str:
    """The lock file of an environment, readable, `format` first. What is built from it is the same package set."""
    kept = {key: value for key, value in description.items() if key not in _LOCAL_KEYS}
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
