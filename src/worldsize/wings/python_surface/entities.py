"""The classes of `azure.ai.ml.entities` for a command job: sections of a job file as objects, under Azure's names.

Each object has the keys of its section as attributes, which may be changed until the job is built; unset ones are None.
Nothing is checked before that. A wrong key or value is then reported with its position in the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_OWN = frozenset(("self", "more", "__class__"))


class Section:
    """A section of a job. `_asdict()` returns the keys that have a value, in the form that the job's reader accepts."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Set the section's attributes from `values`, the `locals()` of a subclass's constructor, whose `more` contains
        further keys."""
        for name, value in {**values, **values.get("more", {})}.items():
            if name not in _OWN:
                setattr(self, name, value)

    def _asdict(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # it may change

    def __repr__(self) -> str:
        return "{}({})".format(type(self).__name__, ", ".join(f"{name}={value!r}" for name, value in self._shown()))

    def _shown(self) -> list[tuple[str, Any]]:
        return [item for item in self._asdict().items() if item[0] != "variables"]  # variables may contain secrets


class BuildContext(Section):
    """The directory of a Dockerfile. It is read and kept, but worldsize builds no images."""

    def __init__(self, *, dockerfile_path: str | None = None, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(locals())


class Environment(Section):
    """The environment in which the ranks run: `environment=Environment(conda_file="conda.yml")`. It is built if it is
    missing, or the ranks run in `image`; nothing is registered. `more` contains the other keys of `environment:`, such
    as `pip`."""

    def __init__(
        self,
        *,
        name: str | None = None,
        version: str | None = None,
        description: str | None = None,
        image: str | None = None,
        build: BuildContext | list[Any] | None = None,
        conda_file: str | os.PathLike[str] | Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
        datastore: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(locals())


class JobResourceConfiguration(Section):
    """The section `resources` of a job: the number of nodes, and what a service should provide."""

    def __init__(
        self,
        *,
        locations: list[str] | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        properties: Mapping[str, Any] | None = None,
        docker_args: str | list[str] | None = None,
        shm_size: str | None = None,
        max_instance_count: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(locals())


ResourceConfiguration = JobResourceConfiguration
"""The other name for it in azure.ai.ml."""


class CommandJobLimits(Section):
    """The section `limits` of a job. `timeout` is in seconds."""

    def __init__(self, *, timeout: float | None = None, **more: Any) -> None:
        super().__init__(locals())


class QueueSettings(Section):
    """The section `queue_settings` of a job, for the service."""

    def __init__(self, *, job_tier: str | None = None, priority: str | None = None, **more: Any) -> None:
        super().__init__(locals())


class JobService(Section):
    """A service of a job's `services`. TensorBoard and JupyterLab are started next to the first rank; the others are
    kept for the service."""

    def __init__(
        self,
        *,
        type: str | None = None,
        nodes: str | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(locals())


class SshJobService(JobService):
    """A login on the job's nodes with these public keys."""

    def __init__(self, *, ssh_public_keys: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "ssh", "ssh_public_keys": ssh_public_keys, **more})


class TensorBoardJobService(JobService):
    """A TensorBoard for `log_dir`, next to the first rank."""

    def __init__(self, *, log_dir: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "tensor_board", "log_dir": log_dir, **more})


class JupyterLabJobService(JobService):
    """A JupyterLab next to the first rank."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"type": "jupyter_lab", **more})


class VsCodeJobService(JobService):
    """VS Code on the job's nodes, for the service."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"type": "vs_code", **more})


class Identity(Section):
    """The section `identity` of a job, for the service."""

    def __init__(self, *, type: str, **more: Any) -> None:
        super().__init__(locals())


class ManagedIdentityConfiguration(Identity):
    """A managed identity, for the service."""

    def __init__(self, *, client_id: str | None = None, object_id: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "managed", "client_id": client_id, "object_id": object_id, **more})


class UserIdentityConfiguration(Identity):
    """The identity of the user who submits the job, for the service."""

    def __init__(self) -> None:
        super().__init__(type="user_identity")


class AmlTokenConfiguration(Identity):
    """A token of Azure Machine Learning, for the service."""

    def __init__(self) -> None:
        super().__init__(type="aml_token")


SECTIONS = {
    "resources": JobResourceConfiguration,
    "limits": CommandJobLimits,
    "queue_settings": QueueSettings,
}
"""The class of each section whose keys are also attributes of a CommandJob itself."""
