"""The fingerprint of a spec, by which the same spec finds the same directory. It is a digest of everything that decides
what is built, and of nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping

from worldsize.common.digests import digest_of
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.requirement import is_editable
from worldsize.trust.secrets import mask_text
from worldsize.wings.environments.pip.requirement_lines import list_lines, parse_include
from worldsize.wings.environments.pip.requirements import local_path, local_sources
from worldsize.wings.environments.sources import is_lock, is_project, read_named_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.environments.lookup import Recipe

VERSION = 1
"""The version of fingerprints. It is increased when the same spec leads to a different build."""

_LARGE_FILE_SIZE = 8 << 20
_EXCLUDED_NAMES = frozenset((".git", ".hg", "__pycache__", ".venv", "build", ".tox", ".mypy_cache", ".ruff_cache"))
_ORIGIN_KEYS = frozenset((
    "worldsize", "name", "fingerprint", "prefix", "base", "upon", "created", "took", "host", "clobbered", "steps",
))  # fmt: skip
"""Keys of a lock, or of the description that it was made of, that do not affect what is installed."""

_ACTIVATION_KEYS = frozenset(("name", "variables", "path", "ld_library_path"))


def fingerprint(spec: EnvironmentSpec, machine: dict[str, Any]) -> str:
    """Return the fingerprint of an environment's `spec`, which must be complete (sources.py), as 40 hexadecimal digits.
    `machine` holds the relevant properties of the platform (`machine_key`): its name, the virtual packages, the Python
    that a virtual environment is made of.

    The fingerprint depends on the content of the files that `spec` names, but not on their location. It depends on
    variables and directories if build steps see them. Raise NotFound for a missing file; UsageError for requirements
    that may change: editable ones.
    """
    value: dict[str, Any] = {
        "version": VERSION,
        "machine": machine,
        "python": spec.python,
        "channels": spec.channels,
        "conda": sorted(" ".join(each.split()) for each in spec.conda),
        "pip": [list(_line_keys(line)) for line in spec.pip],
        "file": _file_key(spec.file) if spec.file else None,
        "modules": spec.modules,
    }
    if spec.steps or spec.fetch:
        value["fetch"] = [[each.sha256, each.to, each.when] for each in spec.fetch]
        value["steps"] = [list(each._replace(name=None)) for each in spec.steps]
        value["seen"] = [dict(spec.variables), spec.path, spec.ld_library_path]
    return digest_of(json.dumps(value, sort_keys=True).encode("utf-8", "surrogateescape"))


def machine_key(recipe: Recipe) -> dict[str, Any]:
    """Return the properties of this machine that decide which packages an environment gets, as a mapping: the platform,
    and either conda's virtual packages and channels, or the Python or environment that it is based on. It is the
    argument `machine` of `fingerprint`."""
    from worldsize.wings.environments.inspect import machine

    found: dict[str, Any] = {"platform": machine.platform()}
    if recipe.spec.conda:
        found["virtual"] = sorted(recipe.virtual) or machine.machine_versions()
        found["channels"] = recipe.channels
    elif recipe.existing:
        found["upon"] = recipe.existing.prefix
    else:
        found["base"] = recipe.base
    return found


def lock_fingerprint(lock: Mapping[str, Any]) -> str:
    """Return the fingerprint of an environment built from a lock. It is a digest of all contents of the lock, except
    those that only describe its origin or take effect at activation. The digest that the lock itself states is not
    trusted."""
    spec = dict(lock.get("spec") or {})
    if not spec.get("steps"):
        spec = {key: value for key, value in spec.items() if key not in _ACTIVATION_KEYS}
    said = {key: value for key, value in lock.items() if key not in _ORIGIN_KEYS}
    return digest_of(json.dumps(["lock", {**said, "spec": spec}], sort_keys=True).encode())


def _line_keys(line: str) -> Iterator[str]:
    """Yield the texts that represent a line of a requirements file in the fingerprint: the requirement itself, and for
    a local path also its content's digest. For a line that includes a file, the texts are the kind of inclusion ("-r"
    or "-c"), and the lines of that file or the keys of that project."""
    for text in list_lines([line]):
        include = parse_include(text)
        if include is None:
            yield from _requirement_keys(text)
            continue
        yield include[0]
        if is_project(include[1]):
            yield from _file_key(include[1])


def _requirement_keys(text: str) -> Iterator[str]:
    if is_editable(text):
        hint = "leave out -e: its current content is installed; or name your own code with `code:`"
        raise UsageError(f"an environment cannot contain sources that change: {mask_text(text)}", None, hint)
    yield text
    local = local_path(text)
    if local:
        yield _content_digest(local)


def _file_key(path: str) -> list[str]:
    """Return the texts that represent the file of an environment's spec in the fingerprint. For a project, these are
    digests of its pyproject.toml, of the uv.lock and .python-version in its directory, and of the source trees that it
    takes packages from. For a lock file, it is the digest of its content."""
    if not is_project(path):
        assert is_lock(path)
        return ["lock", digest_of(read_named_file(path))]
    directory = os.path.dirname(path)
    found = [os.path.join(directory, name) for name in ("pyproject.toml", "uv.lock", ".python-version")]
    own = [digest_of(read_named_file(each)) for each in found if os.path.exists(each)]
    return ["project", os.path.basename(path), *own, *map(_content_digest, local_sources(directory))]


def _content_digest(path: str) -> str:
    """Return the digest of the wheel or archive `path`; for a large one its name, size and time instead. For a
    directory, return the digest of its files' names, sizes and times, since reading a whole source tree at each start
    would take too long."""
    if os.path.isfile(path) and os.path.getsize(path) >= _LARGE_FILE_SIZE:
        return f"{os.path.basename(path)} {os.path.getsize(path)} {os.stat(path).st_mtime_ns}"
    if not os.path.isdir(path):
        return digest_of(read_named_file(path))
    rows = []
    for directory, directories, files in os.walk(path):
        kept = [each for each in directories if each not in _EXCLUDED_NAMES and not each.endswith(".egg-info")]
        directories[:] = sorted(kept)
        for name in sorted(files):
            status = os.lstat(os.path.join(directory, name))
            place = os.path.relpath(os.path.join(directory, name), path)
            rows.append(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0")
    return digest_of("".join(rows).encode("utf-8", "surrogateescape"))
