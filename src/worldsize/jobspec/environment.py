"""What a job runs in, as a frozen value: an environment's parts, before anything is looked at on a disk.

Azure's keys and ours become the same value. Pure.
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
    """A download: `url` is an address or an absolute path, `to` an absolute directory; None: a place of ours. `when` is
    what has to be here for it: "cuda", "no cuda". `max_size`: "20 GiB", of what is fetched, and of what it unpacks to.
    """

    url: str
    sha256: str
    to: str | None = None
    when: str | None = None
    max_size: str | None = None


class BuildStep(NamedTuple):
    """One step of a native build: a line of bash, or requirements that are compiled. `options` are uv's; `when` is what
    has to be here for it: "cuda", "no cuda"."""

    run: str | None = None
    pip: tuple[str, ...] = ()
    name: str | None = None
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    when: str | None = None

    @property
    def title(self) -> str:
        """As it is shown and written down: without secrets."""
        return mask_text(self.name or (self.run or f"pip {' '.join(self.pip)}").split("\n")[0])


class EnvironmentSpec(NamedTuple):
    """The parts of an environment; paths are absolute.

    name              as the configuration or its file calls it
    python            a version ("3.11", ">=3.10"), or something that exists: an interpreter, a virtual or conda
                      environment, by path or by name
    conda             match specs; `channels` the strongest first
    pip               requirements and options, as lines of a requirements file
    file              a file that says more: what it says is added by `wings/environments/sources.py`
    virtual_packages  what conda's solver may count on; empty: what the compute says, or this machine has
    modules           loaded when it is built and when it is used
    steps             native builds, after conda and pip; `fetch` before them
    build_on          "login" or "compute"
    prerequisites     "gcc>=7.2", "mpi", "cuda", or a program's name: looked for before anything is built
    clobber           "fail" or "warn" where pip changed a file of conda's
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
        """The name or path of what exists already, where `python` is no version."""
        return None if self.python is None or is_version(self.python) else self.python

    @property
    def version(self) -> str | None:
        return self.python.removeprefix("python") if self.python is not None and is_version(self.python) else None

    @property
    def needs_build(self) -> bool:
        """Whether something must be made, beside what exists."""
        return bool(self.conda or self.pip or self.file or self.fetch or self.steps or self.version)


def is_version(text: str) -> bool:
    """Return whether `python: text` says which Python to take, rather than one that exists: 3.11, python3.11,
    >=3.10."""
    return re.fullmatch(_VERSION, text.strip().removeprefix("python")) is not None


def is_azure_name(text: str) -> bool:
    """Return whether `environment: text` can only be one of the service's: azureml:…, AzureML-…, NAME:VERSION,
    NAME@LABEL."""
    return re.match(_AZURE, text) is not None and not is_path(text)


def is_path(text: str) -> bool:
    """Return whether a text names a file or directory rather than an environment of that name."""
    if is_remote(text):
        return False
    return text.startswith(("file:", ".", "~")) or os.sep in text or text.endswith(FILE_ENDINGS)


def is_packed_name(text: str) -> bool:
    """Return whether a path that stands for an environment can only be a packed one's."""
    return text.endswith(".tar.gz")


def spec_of(values: Mapping[str, Any]) -> EnvironmentSpec:
    """Return the spec that a mapping with the keys of jobspec/keys/environment.py means; it was read, and so is sound.

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
    """`spec` and what a conda environment file says: name, channels, dependencies with their `pip:`, variables.

    `base` is where relative paths of its pip section start. ValueError says what is wrong.
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
    """Azure's `build:` is a mapping, and none of ours."""
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
