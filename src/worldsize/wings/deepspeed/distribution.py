"""The distribution `type: deepspeed`: ranks that `deepspeed.init_distributed()` connects."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords, processes_key, program_name
from worldsize.jobspec.keys.key import Keys
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import node_major_layout


@ignore_unknown_keywords
class DeepSpeedDistribution(NamedTuple):
    """The distribution of ranks that use DeepSpeed, which reads torch's variables. A command that is `deepspeed
    train.py …` is started once per node."""

    process_count_per_instance: int = 1
    type: str = "deepspeed"

    @staticmethod
    def keys() -> Keys:
        return {"process_count_per_instance": processes_key()}

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        return Arrangement(node_major_layout(instances, self.process_count_per_instance), conventions=("torch",))


def with_launcher(
    arrangement: Arrangement, command: str, argv: Sequence[str], gpus_per_node: int | None
) -> Arrangement:
    """Return the arrangement of ranks changed for a command that is DeepSpeed's own launcher (`deepspeed train.py`),
    which is started once per node. Return `arrangement` unchanged for any other command, and if it has another launcher
    already. Jobs that were written for DeepSpeed's launcher ask for one process per node and mean all GPUs. Raise
    PlanError if the command names the launcher by a path, since the launcher could not be informed of the allocation
    then."""
    asked = not launcher_facts(arrangement.launcher).by_agent and "otherwise" not in arrangement.options
    named = program_name("deepspeed", command, argv)
    if asked or not named:
        return arrangement
    if "/" in named:
        what = "DeepSpeed's launcher is named by a path: it would see only this node"
        raise PlanError(what, "command", "write deepspeed …, and name its environment in environment:")
    nodes = arrangement.nodes
    if gpus_per_node and all(len(node.ranks) == 1 for node in nodes):
        nodes = node_major_layout(len(nodes), gpus_per_node)
    conventions = (*arrangement.conventions, "torch")
    return arrangement._replace(nodes=nodes, launcher="deepspeed", options={}, conventions=conventions)
