"""What `azure.ai.ml.entities` has for a command job: sections of a job file as objects, under Azure's names.

Each holds the keys of its section as attributes, which may be changed until the job is built; unset ones are None.
Nothing is checked before that: a key or value that is wrong is told then, by its place in the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

_OWN = frozenset(("self", "more", "__class__"))


class Section:
    """One section of a job; `_asdict()` gives its keys that have a value, as the job's reader takes them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Takes the `locals()` of a constructor, with further keys in its `more`."""
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
        return [item for item in self._asdict().items() if item[0] != "variables"]  # which may hold secrets


class BuildContext(Section):
    """The directory of a Dockerfile. Read and kept; images are not built here."""

    def __init__(self, *, dockerfile_path: str | None = None, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(locals())


class Environment(Section):
    """What the ranks run in: `environment=Environment(conda_file="conda.yml")`. It is built where it is missing, or the
    ranks run in `image`; nothing is registered. `more` are the other keys of `environment:`, such as `pip`."""

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
    """How many nodes, and what a service should give: `resources` of a job."""

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
"""Azure's other name for it."""


class CommandJobLimits(Section):
    """`timeout` in seconds: `limits` of a job."""

    def __init__(self, *, timeout: float | None = None, **more: Any) -> None:
        super().__init__(locals())


class QueueSettings(Section):
    """`queue_settings` of a job, for the service."""

    def __init__(self, *, job_tier: str | None = None, priority: str | None = None, **more: Any) -> None:
        super().__init__(locals())


class JobService(Section):
    """One of a job's `services`: TensorBoard and JupyterLab are started beside the first rank; the others are kept for
    the service."""

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
    """A login on the job's nodes, for these public keys."""

    def __init__(self, *, ssh_public_keys: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "ssh", "ssh_public_keys": ssh_public_keys, **more})


class TensorBoardJobService(JobService):
    """TensorBoard beside the first rank, on `log_dir`."""

    def __init__(self, *, log_dir: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "tensor_board", "log_dir": log_dir, **more})


class JupyterLabJobService(JobService):
    """JupyterLab beside the first rank."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"type": "jupyter_lab", **more})


class VsCodeJobService(JobService):
    """VS Code on the job's nodes, for the service."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**{"type": "vs_code", **more})


class Identity(Section):
    """`identity` of a job, for the service."""

    def __init__(self, *, type: str, **more: Any) -> None:
        super().__init__(locals())


class ManagedIdentityConfiguration(Identity):
    """A managed identity, for the service."""

    def __init__(self, *, client_id: str | None = None, object_id: str | None = None, **more: Any) -> None:
        super().__init__(**{"type": "managed", "client_id": client_id, "object_id": object_id, **more})


class UserIdentityConfiguration(Identity):
    """The identity of who submits the job, for the service."""

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
"""The class of each section whose keys a CommandJob also has as attributes of its own."""
