"""The distribution `type: mpi`: ranks that mpirun starts, or that find the variables that it would have set."""

from __future__ import annotations

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords, processes_key
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.plan.plan import node_major_layout

_LAUNCHER = (
    "mpirun: Open MPI starts the ranks, without ssh; direct: ranks only get its variables; srun: Slurm "
    "starts them by PMIx; auto: mpirun if the first node has it, else direct."
)


@ignore_unknown_keywords
class MpiDistribution(NamedTuple):
    """The MPI distribution. If the nodes have Open MPI's mpirun, it starts the ranks. Otherwise they are started
    directly, with the variables that it would set. `launcher` selects one of these ways, or Slurm's srun."""

    process_count_per_instance: int = 1
    launcher: str = "auto"
    type: str = "mpi"

    @staticmethod
    def keys() -> Keys:
        return {
            "process_count_per_instance": processes_key(),
            "launcher": Key("text", _LAUNCHER, choices=("auto", "mpirun", "direct", "srun")),
        }

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        options: dict[str, Any] = {"otherwise": "direct"} if self.launcher == "auto" else {}
        launcher = "mpirun" if self.launcher == "auto" else self.launcher
        nodes = node_major_layout(instances, self.process_count_per_instance)
        return Arrangement(nodes, launcher, options)
