"""The distribution `type: jax`: ranks that `jax.distributed.initialize()` connects."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords, processes_key
from worldsize.jobspec.keys.key import Keys
from worldsize.plan.plan import node_major_layout


@ignore_unknown_keywords
class JaxDistribution(NamedTuple):
    """The distribution of ranks that use JAX. JAX reads its coordinator from a variable of its own, and a rank's
    position from Slurm's variables."""

    process_count_per_instance: int = 1
    type: str = "jax"

    @staticmethod
    def keys() -> Keys:
        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        nodes = node_major_layout(instances, self.process_count_per_instance)
        return Arrangement(nodes, conventions=("slurm", "jax"))
