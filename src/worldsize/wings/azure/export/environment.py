"""The environment of an exported job: an image, and a conda file in the job file itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from worldsize.jobspec.environment import EnvironmentSpec, is_azure_name, is_path, spec_of
from worldsize.jobspec.requirement import split_requirement
from worldsize.trust.secrets import mask_text
from worldsize.wings.azure.export.rows import IMPOSSIBLE, LEFT_OUT, TRANSLATED, ExportRow

BASE_IMAGE = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04:latest"
"""The image into which the packages of an environment without an image are installed: Azure's own image for CPUs and
MPI."""

_AZURE_KEYS = (
    "name",
    "version",
    "description",
    "tags",
    "properties",
    "image",
    "os_type",
    "inference_config",
    "datastore",
)
_FILES = ("-r", "-c", "--requirement", "--constraint")
"""Options of pip that name another file of requirements."""

_NOT_THERE = {
    "modules": "images have no modules",
    "path": "build it into an image",
    "ld_library_path": "build it into an image",
    "prerequisites": "the image decides what is installed",
    "virtual_packages": "",
    "clobber": "",
    "distribute": "",
    "build_on": "",
}


def export_environment(environment: str | Mapping[str, Any] | None, base: str) -> tuple[object, list[ExportRow]]:
    """Return the value of `environment:` in Azure's job file for a job's `environment`, and the rows of the export's
    table about it. Paths are relative to `base`. The value is None if the environment cannot be exported."""
    if environment is None:
        return None, [
            _impossible("environment", "is missing, and Azure needs one: name an image, a conda file, or azureml:NAME")
        ]
    if isinstance(environment, str):
        return _from_text(environment, base)
    if isinstance(environment.get("build"), Mapping):
        build = dict(environment["build"])
        build["path"] = _relative(build["path"], base)
        return {**_azure_part(environment), "build": build}, []
    rows = []
    spec = spec_of(environment)
    for key, text in _NOT_THERE.items():
        if getattr(spec, key) != EnvironmentSpec._field_defaults[key]:
            rows.append(ExportRow(f"environment.{key}", LEFT_OUT, text or "it is about worldsize's builds"))
    rows += [
        _impossible(
            f"environment.{key}", "native builds are not in a conda file: build an image with them, and name it"
        )
        for key, given in (("build", spec.steps), ("fetch", spec.fetch))
        if given
    ]
    rows += pip_problems(spec.pip)
    tree = _azure_part(environment)
    if spec.existing_python:
        rows.append(
            _impossible(
                "environment.python", f"{spec.existing_python} is local to this machine: name a version, or an image"
            )
        )
    given = environment.get("conda_file")
    if isinstance(given, Mapping) and not any(environment.get(key) for key in ("python", "channels", "conda", "pip")):
        tree["conda_file"] = given
    elif spec.file:
        if spec.conda or spec.pip or spec.python:
            rows.append(_impossible("environment.file", "cannot be combined with packages: write all into the file"))
        tree["conda_file"], more = _conda_file(spec.file, base)
        rows += more
    elif spec.conda or spec.pip or spec.version:
        tree["conda_file"] = _conda_tree(spec)
        rows.append(ExportRow("environment", TRANSLATED, "packages, as a conda file in the job file"))
    return _with_image(tree, rows)


def _from_text(text: str, base: str) -> tuple[object, list[ExportRow]]:
    if is_azure_name(text):
        return text, []
    if not is_path(text):
        what = f"{text} is an environment on this machine: name an image, a conda file, or azureml:NAME"
        return None, [_impossible("environment", what)]
    content, rows = _conda_file(text.removeprefix("file:"), base)
    return _with_image({"conda_file": content}, rows)


def _with_image(tree: dict[str, Any], rows: list[ExportRow]) -> tuple[dict[str, Any], list[ExportRow]]:
    if "image" not in tree:
        tree = {"image": BASE_IMAGE, **tree}
        rows = [
            *rows,
            ExportRow("environment.image", TRANSLATED, f"{BASE_IMAGE}: packages need one"),
        ]
    return tree, rows


def _conda_file(path: str, base: str) -> tuple[object, list[ExportRow]]:
    """Return the value of `conda_file` in Azure's job file for the environment file `path`, and rows of the export's
    table about it: the path of a conda file, or the content of a conda file made from pip requirements; None if the
    file cannot be used."""
    if path.endswith((".yml", ".yaml")):
        return _relative(path, base), []
    if not path.endswith((".txt", ".in")):
        return None, [
            _impossible("environment", f"{os.path.basename(path)} is neither a conda file nor requirements of pip")
        ]
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeError) as error:
        return None, [_impossible("environment", f"{path} cannot be read: {error}")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if any(line.startswith(_FILES) for line in lines):
        what = f"{os.path.basename(path)} names other files, which would be missing there"
        return None, [_impossible("environment", what)]
    if problems := pip_problems(lines):
        return None, problems
    rows = [
        ExportRow("environment", TRANSLATED, f"the lines of {os.path.basename(path)}, as a conda file in the job file")
    ]
    return _conda_tree(EnvironmentSpec(pip=tuple(lines))), rows


def pip_problems(lines: Sequence[str]) -> list[ExportRow]:
    """Return an "impossible" row of the export's table for each pip requirement in `lines` that an exported file must
    not contain, since it has a password or a token, or a path of this machine."""
    rows = []
    for line in lines:
        if mask_text(line) != line:
            rows.append(_impossible("environment.pip", f"{mask_text(line)} has a secret, which must not be in a file"))
        elif _is_local(line):
            rows.append(_impossible("environment.pip", f"{line} names a path on this machine"))
    return rows


def _is_local(line: str) -> bool:
    place = split_requirement(line).place
    if place and ("file:" in place or "://" not in place):
        return True
    return line.strip().startswith((*_FILES, "-f", "--find-links")) and "://" not in line.replace("file://", "")


def _conda_tree(spec: EnvironmentSpec) -> dict[str, Any]:
    """Return the content of a conda file with the packages of `spec`, as a mapping. Without a channel it names
    conda-forge, since conda would use its own default."""
    dependencies: list[Any] = list(spec.conda)
    if spec.version:
        version = spec.version.strip()
        dependencies.insert(0, f"python={version}" if version[0].isdigit() else f"python{version}")
    if spec.pip:
        if not any(str(each).split("=")[0].strip() == "pip" for each in dependencies):
            dependencies += ["pip"] if spec.version or spec.conda else ["python", "pip"]
        dependencies.append({"pip": list(spec.pip)})
    return {"channels": list(spec.channels) or ["conda-forge"], "dependencies": dependencies}


def _azure_part(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {key: environment[key] for key in _AZURE_KEYS if environment.get(key) is not None}


def _relative(path: str, base: str) -> str:
    """Return the absolute local path `path` relative to `base`, the directory of the exported file. Any other path,
    such as one on a service, is returned unchanged."""
    if not os.path.isabs(path):
        return path
    return os.path.relpath(path, base)


def _impossible(key: str, text: str) -> ExportRow:
    return ExportRow(key, IMPOSSIBLE, text)
