"""The environment of a job as a version of an environment of the workspace, named by its content."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from worldsize.common.atomic_files import printable_text, read_file
from worldsize.errors import JobError
from worldsize.jobspec.environment import is_path
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.environment import ENVIRONMENT
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.reading.environment import read_environment
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import to_node
from worldsize.wings.azure.export.environment import export_environment, pip_problems
from worldsize.wings.azure.export.rows import IMPOSSIBLE
from worldsize.wings.azure.storage.assets import AssetClient, ensure_version, resolve_asset
from worldsize.wings.azure.storage.blobs import Notice, Progress, no_notice, no_progress
from worldsize.wings.azure.storage.content import Content
from worldsize.wings.azure.storage.data_asset import local_content, put_content
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore

ANONYMOUS = "CliV2AnonymousEnvironment"
"""The name that Azure's own client gives environments without a name. Worldsize uses the same, so that an image that
was built for one client serves the other."""

_KEY = "environment"
_YAML = (".yml", ".yaml")


class EnvironmentVersion(NamedTuple):
    """The data for registering a version of an environment.

    version     the name of the version, computed from its content
    properties  in the service's form; those of an image that is built from local files lack `build` at first
    context     the folder that an image is built from
    dockerfile  the path of the Dockerfile in that folder
    """

    version: str
    properties: Mapping[str, Any]
    context: Content | None = None
    dockerfile: str | None = None


def register_environment(
    client: AssetClient,
    job: Job,
    credential: Any = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> str:
    """Return the id of the job's environment in the workspace. It is one that the workspace or a registry has by name,
    else a version made from its image, conda file, packages or Dockerfile, which is registered if there is none with
    this content.

    Raise JobError for what Azure cannot build, and for a name that the workspace lacks; else the errors of
    `upload_code`.
    """
    if isinstance(found := environment_value(job), str):
        return resolve_asset(client, "environments", found)
    made = environment_version(found)
    for text in made.context.left_out if made.context else ():
        notice(text)

    def properties() -> Mapping[str, Any]:
        if made.context is None:
            return made.properties
        store = found.get("datastore") or DEFAULT_DATASTORE
        with open_datastore(client, str(store).removeprefix("azureml:"), credential) as container:
            uri = f"{container.url}/{put_content(container, made.context, progress)}/"
        return {**made.properties, "build": _build(uri, made.dockerfile)}

    return ensure_version(client, f"/environments/{ANONYMOUS}/versions/{quote(made.version)}", properties)


def environment_value(job: Job) -> str | dict[str, Any]:
    """Return the job's environment in the form of Azure's file: a name, or a mapping with absolute paths and with the
    content of its conda file. Raise JobError for what Azure cannot build."""
    environment = job.environment
    if isinstance(environment, str) and is_path(environment) and environment.endswith(_YAML):
        environment = _environment_of_file(environment.removeprefix("file:")) or environment
    value, rows = export_environment(environment, "/")
    problems = [(row.key, row.text) for row in rows if row.verdict == IMPOSSIBLE]
    if isinstance(value, dict) and not problems:
        if isinstance(path := value.get("conda_file"), str):
            value["conda_file"] = _read_conda_file(os.path.join("/", path))
        problems = [(row.key, row.text) for row in pip_problems(list(_pip_lines(value.get("conda_file"))))]
    if problems:
        key, text = problems[0]
        raise JobError("; ".join([text, *(f"{other} {more}" for other, more in problems[1:])]), key)
    assert isinstance(value, (str, dict))
    return value


def environment_version(value: Mapping[str, Any]) -> EnvironmentVersion:
    """Return the environment version to register in the workspace for `value`, an environment without a name in the
    form of Azure's file. Raise JobError if it has neither image nor build, or both; SnapshotError if a folder to build
    from cannot be read."""
    image, build = value.get("image"), value.get("build")
    if bool(image) == bool(build):
        raise JobError("Azure needs an image or a build, one of them", _KEY, "image: NAME, or build: {path: FOLDER}")
    properties: dict[str, Any] = {
        "isAnonymous": True,
        "isArchived": False,
        **{key: value[key] for key in ("image", "description", "tags", "properties") if value.get(key)},
    }
    if value.get("os_type"):
        properties["osType"] = value["os_type"]
    conda = _yaml_text(value["conda_file"]) if value.get("conda_file") else None
    if conda is not None:
        properties["condaFile"] = conda
    if image:
        return EnvironmentVersion(_version_of_image(image, conda), properties)
    assert isinstance(build, Mapping)
    path, dockerfile = str(build.get("path") or ""), build.get("dockerfile_path")
    if is_remote(path):
        properties["build"] = _build(path, dockerfile)
        return EnvironmentVersion(_sha256(f"{path}\0{dockerfile}\0{conda}"), properties)
    context = local_content(os.path.join("/", path), "environment.build.path")
    return EnvironmentVersion(_sha256(f"{context.digest}\0{dockerfile}\0{conda}"), properties, context, dockerfile)


def _version_of_image(image: str, conda: str | None) -> str:
    """Return the name of the version that Azure's client gives an environment with this `image` and conda file text,
    which combines the two digests in its own way."""
    joined = _sha256(image)
    return _sha256(joined.join(_sha256(conda)) if conda else joined)


def _build(uri: str, dockerfile: str | None) -> dict[str, str]:
    return {"contextUri": uri, **({"dockerfilePath": dockerfile} if dockerfile else {})}


def _environment_of_file(path: str) -> Mapping[str, Any] | None:
    """Return the environment mapping that the YAML file `path` contains, with the keys of a job's `environment` and
    absolute paths; None for a conda file."""
    content = _read_yaml(path)
    if "dependencies" in content:
        return None
    report = Problems(os.path.dirname(path))
    found = read_environment(to_node(content, printable_text(path)), "", JOB[_KEY], report)
    report.check()
    return found if isinstance(found, Mapping) else None


def _read_conda_file(path: str) -> dict[str, Any]:
    content = _read_yaml(path)
    if "dependencies" not in content:
        raise JobError(f"{printable_text(path)} is not a conda file: it has no dependencies", _KEY, "correct the file")
    if others := sorted(set(content) & (set(ENVIRONMENT) - {"name", "channels", "variables"})):
        what = (
            f"{printable_text(path)} has {', '.join(others)} next to dependencies, which Azure's conda files "
            "cannot have"
        )
        raise JobError(what, _KEY, "keep only the dependencies in it")
    return content


def _read_yaml(path: str) -> dict[str, Any]:
    import yaml

    shown = printable_text(path)
    try:
        content = yaml.safe_load(read_file(path))
    except OSError as error:
        raise JobError(f"{shown} cannot be read: {error.strerror or error}", _KEY, "correct the path") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise JobError(f"{shown} is not YAML", _KEY, "correct the file") from None
    if not isinstance(content, dict):
        raise JobError(f"{shown} is not a conda file", _KEY, "it has channels: and dependencies:")
    return content


def _pip_lines(conda_file: Any) -> Iterator[str]:
    """Yield the requirement lines of the pip section of a conda file's content."""
    for each in (conda_file or {}).get("dependencies") or ():
        if isinstance(each, Mapping):
            yield from map(str, each.get("pip") or ())


def _yaml_text(value: Any) -> str:
    import yaml

    return str(yaml.dump(_plain(value), sort_keys=True))


def _plain(value: Any) -> Any:
    """Return `value` with mappings and sequences of any class converted to dict and list, which the YAML writer
    knows."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
