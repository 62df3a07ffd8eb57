"""The files that describe an environment: environment.yml, requirements.txt, pyproject.toml, uv.lock, and worldsize's
lock files, which hold every package without the properties of one machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from worldsize.common.atomic_files import printable_text, read_file, read_json
from worldsize.common.json_values import refuse_newer, tuple_of
from worldsize.common.named_tuple import Any
from worldsize.errors import JobError, NotFound, UsageError
from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep, spec_of, with_conda_file
from worldsize.trust.secrets import MASK

LOCK_FORMAT = "worldsize-environment-lock"
_PACKAGE_KEYS = {
    "conda": frozenset(("name", "version", "url", "file_name", "size", "sha256", "md5", "channel")),
    "pip": frozenset(("name", "version", "url", "hashes")),
}
"""The keys that a lock file must contain for each package."""
_LOCAL_KEYS = ("prefix", "base", "upon", "created", "took", "host", "clobbered", "steps")
_DEEPEST = 20
_CONDA_ONLY_KEYS = frozenset(("dependencies", "prefix", "platforms", "category"))
"""Keys of conda's files that worldsize's own do not have. `channels`, `name` and `variables` have the same meaning in
both."""


def with_file_contents(spec: EnvironmentSpec, depth: int = 0) -> EnvironmentSpec:
    """Return the environment's `spec` with the contents of its file merged into it. `file` remains set for a file that
    is no list of packages: a project, a lock. `depth` is the number of files that have named the next one by `file:` so
    far.

    Raise NotFound, or UsageError with file and line.
    """
    path = spec.file
    if path is None:
        return spec
    if not os.path.exists(path):
        raise NotFound(f"no such file or directory: {printable_text(path)}", None, "correct it, or leave it out")
    if os.path.isdir(path):
        raise UsageError(
            f"{printable_text(path)} is a directory",
            None,
            "name a file in it, or set python: for an existing environment",
        )
    if path.endswith((".yml", ".yaml")):
        if depth == _DEEPEST:
            raise UsageError(
                f"{printable_text(path)}: more than {depth} files include each other", None, "correct file:"
            )
        return _read_yaml_spec(spec._replace(file=None), path, depth)
    if is_project(path) or is_lock(path):
        return spec
    if path.endswith((".txt", ".in")):
        return spec._replace(file=None, pip=("-r " + path, *spec.pip))
    raise UsageError(
        f"{printable_text(path)} has no content that is understood",
        None,
        "requirements.txt, environment.yml, pyproject.toml, uv.lock, or a file of `worldsize env lock`",
    )


def is_project(path: str) -> bool:
    return os.path.basename(path) in ("pyproject.toml", "uv.lock")


def is_lock(path: str) -> bool:
    """Return whether the file `path` is an environment's lock file that worldsize wrote."""
    if not path.endswith((".lock", ".json")):
        return False
    return LOCK_FORMAT.encode() in read_file(path, 400)


def _read_yaml_spec(spec: EnvironmentSpec, path: str, depth: int) -> EnvironmentSpec:
    """Return the spec in the conda environment file `path`, which may contain worldsize's own keys as well, with `spec`
    merged into it. Raise UsageError."""
    from worldsize.jobspec.keys.environment import ENVIRONMENT
    from worldsize.jobspec.reading.environment import ENVIRONMENT_READERS
    from worldsize.jobspec.reading.nearest import nearest_word
    from worldsize.jobspec.reading.problems import Problems
    from worldsize.jobspec.reading.tree import plain_value
    from worldsize.jobspec.reading.values import mapping_of, read_keys
    from worldsize.jobspec.reading.yaml import parse_yaml

    name = printable_text(path)
    node = parse_yaml(_read_text(path), name)
    report = Problems(os.path.dirname(path))
    nodes = mapping_of(node, "", report)
    known = {key: item for key, item in nodes.items() if key in ENVIRONMENT}
    for key, item in nodes.items():
        meant = (
            None
            if key in known or key in _CONDA_ONLY_KEYS
            else nearest_word(key, [*ENVIRONMENT, *_CONDA_ONLY_KEYS], 0.8)
        )
        if meant:
            report.add(item, key, "is not a key of an environment", f"did you mean {meant!r}?")
    read = spec_of(read_keys(known, "", ENVIRONMENT, report, ENVIRONMENT_READERS, of="an environment"))
    if "dependencies" in nodes:
        try:
            content = {"dependencies": plain_value(nodes["dependencies"])}
            read = with_conda_file(read, content, os.path.dirname(path))
        except ValueError as error:
            report.add(nodes["dependencies"], "", str(error))
    report.check()
    if read._replace(name=None) == EnvironmentSpec():
        raise UsageError("does not describe an environment", name, "conda's files have dependencies:")
    return merge_specs(spec, with_file_contents(read, depth + 1))


def merge_specs(outer: EnvironmentSpec, inner: EnvironmentSpec) -> EnvironmentSpec:
    """Return the environment spec of a file (`inner`) with the keys of a job (`outer`) added to it. If there can be
    only one value, the job's has precedence."""
    defaults = EnvironmentSpec._field_defaults
    changed: dict[str, Any] = {}
    for field, said in outer._asdict().items():
        other = getattr(inner, field)
        if said == defaults[field]:
            continue
        if isinstance(said, tuple):
            changed[field] = (*other, *said)
        else:
            changed[field] = {**other, **said} if isinstance(said, dict) else said
    return inner._replace(**changed)


def read_named_file(path: str) -> bytes:
    """Return the content, in bytes, of the file `path` that a job names. Raise NotFound or UsageError."""
    try:
        return read_file(path)
    except FileNotFoundError:
        raise NotFound(
            f"no such file or directory: {printable_text(path)}", None, "correct it, or leave it out"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", printable_text(path)) from None


def _read_text(path: str) -> str:
    try:
        return read_named_file(path).decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise JobError("not UTF-8 text", printable_text(path)) from None


def read_lock(path: str) -> dict[str, Any]:
    """Return the contents of the environment's lock file `path`. Raise UsageError for a file that is no lock, or whose
    format this worldsize cannot read."""
    try:
        value = read_json(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}", printable_text(path)) from None
    if not isinstance(value, dict) or value.get("format") != LOCK_FORMAT:
        raise UsageError(
            "is not a lock file of an environment", printable_text(path), "`worldsize env lock` writes one"
        )
    refuse_newer(value, 1, printable_text(path))
    if value.get("version") != 1:
        raise UsageError("has an unknown format", printable_text(path), "`worldsize env lock` writes one")
    for kind, needed in _PACKAGE_KEYS.items():
        rows = value.get(kind)
        if not isinstance(rows, list) or not all(isinstance(row, dict) and needed <= row.keys() for row in rows):
            what = f"is incomplete: {kind}: expected packages with {', '.join(sorted(needed))}"
            raise UsageError(what, printable_text(path), "`worldsize env lock` rewrites it")
    return value


def with_lock_spec(spec: EnvironmentSpec, lock: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the spec that the environment of `lock` was made of, without its file, merged with `spec`. Variables whose
    values were masked are left out."""
    inner = spec_from_json(lock.get("spec") or {})
    variables = {name: value for name, value in inner.variables.items() if MASK not in value}
    return merge_specs(spec._replace(file=None), inner._replace(variables=variables, file=None))


def masked_lock_variables(lock: Mapping[str, Any]) -> list[str]:
    """Return the names of the environment variables in `lock` whose values were masked as secrets, so that the lock
    does not contain them."""
    variables = spec_from_json(lock.get("spec") or {}).variables
    return [name for name, value in variables.items() if MASK in value]


def non_default_fields(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the fields of an environment's spec that differ from the defaults, by name, as JSON values."""
    defaults = EnvironmentSpec._field_defaults
    changed = {name: value for name, value in spec._asdict().items() if value != defaults[name]}
    for name in ("fetch", "steps"):
        if name in changed:
            changed[name] = [each._asdict() for each in changed[name]]
    return changed


def spec_from_json(value: Mapping[str, Any]) -> EnvironmentSpec:
    """Return an environment's spec from the JSON form that `non_default_fields` returns. Fields that this worldsize
    does not know are left out."""
    said = dict(value)
    said["fetch"] = tuple(tuple_of(FetchStep, each) for each in said.get("fetch", ()))
    said["steps"] = tuple(tuple_of(BuildStep, _lists_to_tuples(each)) for each in said.get("steps", ()))
    known = {name: item for name, item in _lists_to_tuples(said).items() if name in EnvironmentSpec._fields}
    return EnvironmentSpec(**known)


def _lists_to_tuples(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mapping with JSON's lists converted back to tuples."""
    return {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}


def lock_text(description: Mapping[str, Any]) -> str:
    """Return the JSON text of an environment's lock file, `format` first, made from the environment's `description`. A
    build from it has the same package set."""
    kept = {key: value for key, value in description.items() if key not in _LOCAL_KEYS}
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
