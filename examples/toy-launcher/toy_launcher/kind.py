"""`distribution: {type: toy}`: equal ranks on every node, which the launcher `toy` starts."""

from typing import NamedTuple

from worldsize.jobspec.distributions.base import Arrangement, processes_key
from worldsize.plan.plan import node_major_layout


class Toy(NamedTuple):
    process_count_per_instance: int = 1
    type: str = "toy"

    @staticmethod
    def keys():
        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances):
        return instances * self.process_count_per_instance

    def arrange(self, instances):
        return Arrangement(node_major_layout(instances, self.process_count_per_instance), launcher="toy")
