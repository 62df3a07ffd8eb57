"""`type: ray`, which is read and cannot run yet."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords
from worldsize.jobspec.keys.key import Key, Keys


@ignore_unknown_keywords
class RayDistribution(NamedTuple):
    """A Ray cluster: a head and workers, one per instance."""

    port: int | None = None
    address: str | None = None
    include_dashboard: bool | None = None
    dashboard_port: int | None = None
    head_node_additional_args: str | None = None
    worker_node_additional_args: str | None = None
    type: str = "ray"

    @staticmethod
    def keys() -> Keys:
        return {
            "port": Key("int", "The head's port.", minimum=1, maximum=65535),
            "address": Key("text", "The address of a cluster that runs already."),
            "include_dashboard": Key("flag", "Whether to start the dashboard."),
            "dashboard_port": Key("int", "The dashboard's port.", minimum=1, maximum=65535),
            "head_node_additional_args": Key("text", "Extra arguments of the head."),
            "worker_node_additional_args": Key("text", "Extra arguments of the workers."),
        }

    def world_size(self, instances: int) -> int:
        return instances

    def arrange(self, instances: int) -> Arrangement:
        raise PlanError(
            "this release cannot run a ray distribution yet",
            "distribution.type",
            "these run today: pytorch, tensorflow, mpi, horovod, deepspeed, jax",
        )
