"""The distribution `type: none`: ranks of no framework."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords
from worldsize.plan.plan import node_major_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.keys.key import Keys


@ignore_unknown_keywords
class PlainDistribution(NamedTuple):
    """Distribution for ranks of no framework, with every convention set."""

    process_count_per_instance: int = 1
    type: str = "none"

    @staticmethod
    def keys() -> Keys:
        from worldsize.jobspec.distributions.base import processes_key

        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        return Arrangement(node_major_layout(instances, self.process_count_per_instance))
