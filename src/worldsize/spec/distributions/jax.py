"""`type: jax`: ranks that `jax.distributed.initialize()` brings together."""

from __future__ import annotations

from worldsize.plan.layout import node_major
from worldsize.plan.values import NamedTuple
from worldsize.spec.distributions.base import Arrangement, tolerant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.spec.key import Keys


@tolerant
class JaxDistribution(NamedTuple):
    """JAX finds its coordinator in a variable of its own, and a rank's place in Slurm's."""

    process_count_per_instance: int = 1
    type: str = "jax"

    @staticmethod
    def keys() -> Keys:
        from worldsize.spec.distributions.base import processes_key

        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        nodes = node_major(instances, self.process_count_per_instance)
        return Arrangement(nodes, conventions=("slurm", "jax"))
