"""The environment of a job as a frozen value: its parts, before any disk is read.

Azure's keys and worldsize's become the same value. All functions are pure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.requirement import absolute_requirement
from worldsize.trust.secrets import mask_text

FILE_ENDINGS = (".txt", ".in", ".yml", ".yaml", ".toml", ".lock", ".json")
_AZURE = r"(?i)azureml:|azureml-|.*[:@]"
_VERSION = r"(?:[<>=!~]=?|===)?\s*\d+(?:\.\d+)*(?:\.\*)?(?:\s*,\s*[<>=!~]=?\s*\d+(?:\.\d+)*(?:\.\*)?)*"


class FetchStep(NamedTuple):
    """A download. `url` is an address or an absolute path. `to` is an absolute directory; None: a directory that
    worldsize chooses. `when` is a condition on the machine: "cuda", "no cuda". `max_size` ("20 GiB") limits the
    download, and the size that it unpacks to."""

    url: str
    sha256: str
    to: str | None = None
    when: str | None = None
    max_size: str | None = None


class BuildStep(NamedTuple):
    """A step of a native build: a line of bash, or requirements that are compiled. `options` are uv's. `when` is a
    condition on the machine: "cuda", "no cuda"."""

    run: str | None = None
    pip: tuple[str, ...] = ()
    name: str | None = None
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    when: str | None = None

    @property
    def title(self) -> str:
        """The text by which the step is shown and recorded, without secrets."""
        return mask_text(self.name or (self.run or f"pip {' '.join(self.pip)}").split("\n")[0])


class EnvironmentSpec(NamedTuple):
    """The parts of an environment. Paths are absolute.

    name              its name in the configuration or in its file
    python            a version ("3.11", ">=3.10"), or an existing interpreter, virtual or conda environment, by path
                      or by name
    conda             match specs; `channels` the strongest first
    pip               requirements and options, as lines of a requirements file
    file              a file with more parts, which `wings/environments/sources.py` adds
    virtual_packages  virtual packages that conda's solver may assume; empty: the compute's, or this machine's
    modules           modules that are loaded when it is built and when it is used
    steps             native builds, after conda and pip; `fetch` before them
    build_on          "login" or "compute"
    prerequisites     "gcc>=7.2", "mpi", "cuda", or a program's name: checked before anything is built
    clobber           "fail" or "warn" if pip changed a file of conda's
    distribute        how the nodes get it: "shared", "local" or "auto"
    image             a container image
    """

    name: str | None = None
    python: str | None = None
    channels: tuple[str, ...] = ()
    conda: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    file: str | None = None
    virtual_packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    ld_library_path: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    fetch: tuple[FetchStep, ...] = ()
    steps: tuple[BuildStep, ...] = ()
    build_on: str = "login"
    prerequisites: tuple[str, ...] = ()
    clobber: str = "fail"
    distribute: str = "auto"
    image: str | None = None

    @property
    def existing_python(self) -> str | None:
        """The name or path of an existing environment or interpreter; None if `python` is a version or not set."""
        return None if self.python is None or is_version(self.python) else self.python

    @property
    def version(self) -> str | None:
        return self.python.removeprefix("python") if self.python is not None and is_version(self.python) else None

    @property
    def needs_build(self) -> bool:
        """Flag for whether a part must be built, in addition to what exists."""
        return bool(self.conda or self.pip or self.file or self.fetch or self.steps or self.version)


def is_version(text: str) -> bool:
    """Return whether `text`, the value of an environment's `python:` key, is the version of the Python to use, such as
    3.11, python3.11 or >=3.10, rather than the name or path of an existing Python."""
    return re.fullmatch(_VERSION, text.strip().removeprefix("python")) is not None


def is_azure_name(text: str) -> bool:
    """Return whether `text`, the value of a job's `environment:` key, can only be the name of an environment in Azure
    ML: azureml:…, AzureML-…, NAME:VERSION, NAME@LABEL."""
    return re.match(_AZURE, text) is not None and not is_path(text)


def is_path(text: str) -> bool:
    """Return whether `text`, the value of a job's `environment:` key, is the path of a file or directory rather than
    the name of an environment."""
    if is_remote(text):
        return False
    return text.startswith(("file:", ".", "~")) or os.sep in text or text.endswith(FILE_ENDINGS)


def is_packed_name(text: str) -> bool:
    """Return whether `text`, the path of an environment, can only be that of a packed environment (.tar.gz)."""
    return text.endswith(".tar.gz")


def spec_of(values: Mapping[str, Any]) -> EnvironmentSpec:
    """Convert `values`, the mapping of a job's `environment:` with the keys of jobspec/keys/environment.py, to an
    EnvironmentSpec. The mapping was read before, so it is valid.

    A `conda_file` that is a path becomes `file`; its content becomes channels, conda and pip.
    """
    spec = EnvironmentSpec(
        name=values.get("name"),
        python=values.get("python"),
        channels=tuple(values.get("channels", ())),
        conda=tuple(values.get("conda", ())),
        pip=to_lines(values.get("pip", ())),
        file=values.get("file"),
        virtual_packages=tuple(values.get("virtual_packages", ())),
        modules=tuple(values.get("modules", ())),
        path=to_lines(values.get("path", ())),
        ld_library_path=to_lines(values.get("ld_library_path", ())),
        variables=dict(values.get("variables", {})),
        fetch=tuple(FetchStep(**each) for each in values.get("fetch", ())),
        steps=_steps(values.get("build")),
        build_on=values.get("build_on", "login"),
        prerequisites=tuple(values.get("prerequisites", ())),
        clobber=values.get("clobber", "fail"),
        distribute=values.get("distribute", "auto"),
        image=values.get("image"),
    )
    conda_file = values.get("conda_file")
    if isinstance(conda_file, str):
        return spec._replace(file=conda_file)
    return with_conda_file(spec, conda_file) if conda_file else spec


def with_conda_file(spec: EnvironmentSpec, content: Mapping[str, Any], base: str = "") -> EnvironmentSpec:
    """Return the environment spec `spec` with `content`, the contents of a conda environment file, added: name,
    channels, dependencies with their `pip:`, variables.

    `base` is the directory of relative paths in the file's pip section. Raise ValueError, which states the problem, if
    the content is not valid.
    """
    conda: list[str] = []
    pip: list[str] = []
    for entry in _list(content, "dependencies"):
        if isinstance(entry, str):
            conda.append(entry)
        elif isinstance(entry, Mapping) and set(entry) == {"pip"}:
            pip += [absolute_requirement(str(line), base) for line in _list(entry, "pip")]
        else:
            raise ValueError(f"dependencies: expected a package or `pip:`, found {entry!r:.60}")
    variables = content.get("variables") or {}
    if not isinstance(variables, Mapping):
        raise ValueError("variables: expected names with values")
    return spec._replace(
        name=spec.name or content.get("name"),
        channels=(*spec.channels, *map(str, _list(content, "channels"))),
        conda=(*spec.conda, *conda),
        pip=(*spec.pip, *pip),
        variables={**{str(name): str(value) for name, value in variables.items()}, **spec.variables},
    )


def to_lines(value: str | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    found = content.get(key)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"{key}: expected a list")
    return list(found)


def _steps(value: Any) -> tuple[BuildStep, ...]:
    """Convert `value`, the list under `build:` of an environment, to BuildSteps; none for Azure's `build:`, which is a
    mapping and not worldsize's key."""
    if value is None or isinstance(value, Mapping):
        return ()
    return tuple(_step(each) for each in value)


def _step(value: str | Mapping[str, Any]) -> BuildStep:
    if isinstance(value, str):
        return BuildStep(run=value)
    return BuildStep(
        run=value.get("run"),
        pip=to_lines(value.get("pip", ())),
        name=value.get("name"),
        options=tuple(value.get("options", ())),
        variables=dict(value.get("variables", {})),
        when=value.get("when"),
    )
