"""The distribution `type: horovod`: ranks that meet by gloo at Horovod's own rendezvous server, or that mpirun
starts."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords, processes_key
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.plan.plan import node_major_layout

_LAUNCHER = (
    "direct: ranks get Horovod's variables (for a Horovod built with gloo); mpirun: Open MPI starts them "
    "(for a Horovod built with MPI)."
)


@ignore_unknown_keywords
class HorovodDistribution(NamedTuple):
    """The Horovod distribution, which replaces horovodrun: Horovod's variables are set directly, or a Horovod that was
    built with MPI runs under mpirun."""

    process_count_per_instance: int = 1
    launcher: str = "direct"
    type: str = "horovod"

    @staticmethod
    def keys() -> Keys:
        return {
            "process_count_per_instance": processes_key(),
            "launcher": Key("text", _LAUNCHER, choices=("direct", "mpirun")),
        }

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        nodes = node_major_layout(instances, self.process_count_per_instance)
        return Arrangement(nodes, self.launcher, ports="node")
