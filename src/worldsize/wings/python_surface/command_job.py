"""The function `command(…)`, which builds a job in Python. Its shape is that of azure.ai.ml's function of the same
name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from worldsize.errors import JobError
from worldsize.jobspec.job import Data, Input, Job, Output, short_text

if TYPE_CHECKING:
    from worldsize.jobspec.distribution import Distribution
    from worldsize.jobspec.reading.tree import YamlNode
    from worldsize.wings.python_surface.entities import (
        CommandJobLimits,
        Environment,
        Identity,
        JobResourceConfiguration,
        QueueSettings,
    )

    InputLike = Input | Data | Mapping[str, Any] | str | float | bool
    OutputLike = Output | Mapping[str, Any] | None

ORIGIN = "command()"

_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "resources": ("instance_count", "instance_type", "locations", "docker_args", "shm_size", "max_instance_count"),
    "limits": ("timeout",),
    "queue_settings": ("job_tier", "priority"),
}
_SECTION_OF = {name: section for section, names in _SECTIONS.items() for name in names}
_DICTS = ("inputs", "outputs", "tags", "environment_variables")
_IGNORED = ("is_deterministic",)


class CommandJob:
    """A job that is not built yet: every key is an attribute that may be set until the job is built.

    Attributes are the keys of a job file, and `instance_count`, `instance_type`, `locations`, `docker_args`,
    `shm_size`, `max_instance_count`, `timeout`, `job_tier` and `priority` without their sections: `job.instance_count`
    and `job.resources.instance_count` are one value. `inputs`, `outputs`, `tags` and `environment_variables` are dicts
    that may be changed in place. Nothing is checked before `build()`, except that attributes exist.
    """

    if TYPE_CHECKING:
        name: str | None
        description: str | None
        tags: dict[str, Any]
        properties: Mapping[str, Any] | None
        display_name: str | None
        command: str | None
        experiment_name: str | None
        environment: Any
        environment_variables: dict[str, Any]
        distribution: Any
        compute: str | None
        inputs: dict[str, Any]
        outputs: dict[str, Any]
        instance_count: int | None
        instance_type: str | None
        locations: Sequence[str] | None
        docker_args: str | Sequence[str] | None
        shm_size: str | None
        timeout: float | None
        code: str | PathLike[str] | None
        job_tier: str | None
        priority: str | None
        max_instance_count: int | None
        is_deterministic: bool | None
        identity: Any
        services: Mapping[str, Any] | None
        queue_settings: Any
        resources: Any
        limits: Any
        parent_job_name: str | None
        input_types: Mapping[str, Any] | None
        argv: Sequence[str] | None
        batch_script: str | None
        additional_includes: Sequence[str | PathLike[str]] | None
        conventions: Sequence[str] | None
        grace: float | None
        watchdog: Mapping[str, Any] | None
        hang_timeout: float | None
        notify: str | None
        preload: str | Sequence[str] | None
        strict: bool | None
        threads: int | None
        bind: str | None
        secrets: Sequence[str] | None
        share: str | None
        share_gpus: bool | None
        visible_devices: bool | None
        data_parallel: str | None
        virtual_gpus: int | None
        offline: bool | None
        modules: Sequence[str] | None
        setup: Sequence[str] | None
        slurm: Mapping[str, Any] | None
        hpcpack: Mapping[str, Any] | None
        stage: Mapping[str, Any] | None
        autotune: Mapping[str, Any] | None
        matrix: Mapping[str, Sequence[Any]] | None
        count: int | None
        at_once: int | None

    def __init__(self, **values: Any) -> None:
        """Set the attributes from the keywords of `command()`; None leaves an attribute unset. Raise JobError if a
        keyword does not exist."""
        for name in attributes():
            if name not in _SECTION_OF:
                object.__setattr__(self, name, {} if name in _DICTS else None)
        for name in sorted(values, key=_SECTION_OF.__contains__):
            if values[name] is not None:
                setattr(self, name, values[name])

    if not TYPE_CHECKING:  # type checkers must report attributes that are not listed above

        def __getattr__(self, name: str) -> object:
            if name not in _SECTION_OF:
                raise AttributeError(f"a job has no attribute {name!r}")
            return _as_dict(self.__dict__.get(_SECTION_OF[name])).get(name)

        def __setattr__(self, name: str, value: Any) -> None:
            """Set an attribute. Raise JobError, which names the most similar attribute, if a job has no attribute of
            that name."""
            if name not in attributes():
                from worldsize.jobspec.reading.nearest import did_you_mean

                raise JobError(f"a job has no {name!r:.60}", ORIGIN, did_you_mean(name, attributes()))
            section = _SECTION_OF.get(name)
            if section is not None:
                value, name = _with_key(section, getattr(self, section), name, value), section
            object.__setattr__(self, name, dict(value) if name in _DICTS and isinstance(value, dict) else value)

    def set_resources(self, **keys: Any) -> None:
        """Set those keys of the job's section `resources` whose values in `keys` are not None; the other keys of the
        section are unchanged."""
        self._set_keys("resources", keys)

    def set_limits(self, *, timeout: float) -> None:
        """Set the timeout of the job (`limits.timeout`), in seconds."""
        self._set_keys("limits", {"timeout": timeout})

    def set_queue_settings(self, *, job_tier: str | None = None, priority: str | None = None) -> None:
        """Set `job_tier` and `priority` of the job's section `queue_settings`, if they are not None; a key that is None
        is unchanged."""
        self._set_keys("queue_settings", {"job_tier": job_tier, "priority": priority})

    def _set_keys(self, section: str, keys: Mapping[str, Any]) -> None:
        for name, value in keys.items():
            if value is not None:
                setattr(self, section, _with_key(section, getattr(self, section), name, value))

    def __repr__(self) -> str:
        """Return one line with the job's command, name and number of nodes, without values that may contain secrets."""
        name = self.display_name or self.name
        given = [("command", self.command), ("name", name), ("instance_count", self.instance_count)]
        texts = [f"{key}={short_text(value)}" for key, value in given if value is not None]
        return f"command({', '.join(texts)})"

    def build(self) -> tuple[Job, list[str]]:
        """Return the Job that the attributes describe, and its warnings as a list of texts. Relative paths are relative
        to the current directory.

        Raise JobError, which names every problem by its key, if the job is not valid.
        """
        from worldsize.jobspec.paths import current_directory
        from worldsize.jobspec.reading.job import read_job
        from worldsize.jobspec.reading.problems import Problems

        report = Problems(current_directory(ORIGIN))
        job = read_job(self._node(), report, "python")
        report.check()
        return job, report.warnings

    def _node(self) -> YamlNode:
        from worldsize.jobspec.reading.tree import to_node

        tree: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        for name in _IGNORED:
            tree.pop(name, None)
        if isinstance(self.inputs, dict):
            tree["inputs"] = {name: _input(value) for name, value in self.inputs.items()}
        return to_node(tree, ORIGIN)


Command = CommandJob
"""The other name for it in azure.ai.ml."""


def _with_key(section: str, value: Any, name: str, item: Any) -> Any:
    """Return `value`, the section of a job named `section`, with the key `name` set to `item`. A dict stays a dict;
    anything else becomes an object of the section's class, whose attributes may be changed."""
    given = {**_as_dict(value), name: item}
    if isinstance(value, dict):
        return given
    from worldsize.wings.python_surface.entities import SECTIONS

    return SECTIONS[section](**given)


def _as_dict(section: Any) -> dict[str, Any]:
    if hasattr(section, "_asdict"):
        return dict(section._asdict())
    if section is None or isinstance(section, dict):
        return section or {}
    raise JobError(f"a section is a mapping of keys, not a {type(section).__name__}", ORIGIN)


def _input(value: Any) -> Any:
    """Return the Input that a data asset (`Data`) of a job's inputs represents, by its path or by its name on the
    service. Return any other value unchanged."""
    if not isinstance(value, Data):
        return value
    path = value.path
    if path is None and value.name:
        path = "azureml:{}{}".format(value.name, ":" + value.version if value.version else "@latest")
    return Input(type=value.type, path=path, description=value.description)


def attributes() -> tuple[str, ...]:
    """Return the names of a CommandJob's attributes: the keys of a job, and those of its sections."""
    own = tuple(name for name in Job._fields if name not in ("source", "batch_source", "type"))
    return (*own, *_SECTION_OF, *_IGNORED)


def command(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    display_name: str | None = None,
    command: str | None = None,
    experiment_name: str | None = None,
    environment: Environment | Mapping[str, Any] | str | None = None,
    environment_variables: Mapping[str, Any] | None = None,
    distribution: Distribution | Mapping[str, Any] | None = None,
    compute: str | None = None,
    inputs: Mapping[str, InputLike] | None = None,
    outputs: Mapping[str, OutputLike] | None = None,
    instance_count: int | None = None,
    instance_type: str | None = None,
    locations: Sequence[str] | None = None,
    docker_args: str | Sequence[str] | None = None,
    shm_size: str | None = None,
    timeout: float | None = None,
    code: str | PathLike[str] | None = None,
    job_tier: str | None = None,
    priority: str | None = None,
    max_instance_count: int | None = None,
    is_deterministic: bool | None = None,
    identity: Identity | Mapping[str, Any] | None = None,
    services: Mapping[str, Any] | None = None,
    queue_settings: QueueSettings | Mapping[str, Any] | None = None,
    resources: JobResourceConfiguration | Mapping[str, Any] | None = None,
    limits: CommandJobLimits | Mapping[str, Any] | None = None,
    parent_job_name: str | None = None,
    input_types: Mapping[str, Any] | None = None,
    argv: Sequence[str] | None = None,
    batch_script: str | None = None,
    additional_includes: Sequence[str | PathLike[str]] | None = None,
    conventions: Sequence[str] | None = None,
    grace: float | None = None,
    watchdog: Mapping[str, Any] | None = None,
    hang_timeout: float | None = None,
    notify: str | None = None,
    preload: str | Sequence[str] | None = None,
    strict: bool | None = None,
    threads: int | None = None,
    bind: str | None = None,
    secrets: Sequence[str] | None = None,
    share: str | None = None,
    share_gpus: bool | None = None,
    visible_devices: bool | None = None,
    data_parallel: str | None = None,
    virtual_gpus: int | None = None,
    offline: bool | None = None,
    modules: Sequence[str] | None = None,
    setup: Sequence[str] | None = None,
    slurm: Mapping[str, Any] | None = None,
    hpcpack: Mapping[str, Any] | None = None,
    stage: Mapping[str, Any] | None = None,
    autotune: Mapping[str, Any] | None = None,
    matrix: Mapping[str, Sequence[Any]] | None = None,
    count: int | None = None,
    at_once: int | None = None,
    **unknown: NoReturn,
) -> CommandJob:
    """Return a CommandJob that executes the shell command `command` on every rank; pass it to `submit()`.

    The keywords are those of azure.ai.ml's `command`, then the other keys of a job file; None leaves one unset. `code`
    and local paths are relative to the directory from which the job is submitted. Raise JobError if a keyword does not
    exist; values are checked when the job is built or submitted.
    """
    given = {key: value for key, value in locals().items() if key != "unknown"}
    return CommandJob(**given, **unknown)
