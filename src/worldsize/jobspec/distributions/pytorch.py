"""The distribution `type: pytorch`: torch.distributed."""

from __future__ import annotations

import re

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement, count_key, ignore_unknown_keywords, processes_key
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import node_major_layout


@ignore_unknown_keywords
class PyTorchDistribution(NamedTuple):
    """Distribution for torch.distributed, whose variables are set directly, or by one torchrun per node
    (`launcher="torchrun"`).

    The other fields are torchrun's. With `nodes` "MIN:MAX" the run continues without lost nodes while MIN are left.
    `max_restarts` is how often all ranks are started again after one fails. `rdzv_backend` is "c10d" or "static".
    """

    process_count_per_instance: int = 1
    launcher: str = "direct"
    nodes: str | None = None
    max_restarts: int = 0
    rdzv_backend: str = "c10d"
    type: str = "pytorch"

    @staticmethod
    def keys() -> Keys:
        launcher = "direct: ranks are started with torch's variables set; torchrun: one torchrun per node starts them."
        restarts = "torchrun's: how often all ranks are restarted when one of them fails."
        return {
            "process_count_per_instance": processes_key(),
            "launcher": Key("text", launcher, choices=("direct", "torchrun")),
            "nodes": Key("as_text", "torchrun's: MIN:MAX, to continue without lost nodes while at least MIN are left."),
            "max_restarts": count_key(restarts, minimum=0),
            "rdzv_backend": Key("text", "torchrun's rendezvous back end: c10d or static.", choices=("c10d", "static")),
        }

    def world_size(self, instances: int) -> int:
        return instances * self.process_count_per_instance

    def arrange(self, instances: int) -> Arrangement:
        nodes = node_major_layout(instances, self.process_count_per_instance)
        return Arrangement(nodes, self.launcher, self._options(instances))

    def _options(self, instances: int) -> dict[str, Any]:
        """Return the torchrun options of this distribution that differ from torchrun's defaults, for a run on
        `instances` nodes. Raise PlanError if the launcher is not torchrun, or if the options do not fit together."""
        said: dict[str, Any] = {}
        if self.nodes is not None:
            said["min_nodes"] = _min_nodes(self.nodes, instances)
        if self.max_restarts:
            said["max_restarts"] = self.max_restarts
        if self.rdzv_backend != "c10d":
            said["rdzv_backend"] = self.rdzv_backend
        if said and not said.keys() <= set(launcher_facts(self.launcher).options):
            names = ", ".join(said).replace("min_nodes", "nodes")
            raise PlanError(f"{names}: for torchrun only", "distribution.launcher", "launcher: torchrun")
        if instances > 1 and "rdzv_backend" in said and len(said) > 1:
            what = "with static rendezvous each node would start its own ranks again, and not the others'"
            raise PlanError(what, "distribution.rdzv_backend", "rdzv_backend: c10d")
        return said


def _min_nodes(nodes: str, instances: int) -> int:
    """Parse `nodes`, "MIN:MAX" or one number for both, and return MIN, the number of nodes with which a torchrun run
    continues. Raise PlanError for another text, and if `instances`, the number of nodes on which the run starts, is not
    in the range."""
    found = re.fullmatch(r"([0-9]{1,7})(?::([0-9]{1,7}))?", nodes.strip())
    if found is None or not 0 < int(found[1]) <= int(found[2] or found[1]):
        raise PlanError(f"{nodes!r:.40} is not a range of nodes", "distribution.nodes", "write MIN:MAX, such as 1:2")
    least, most = int(found[1]), int(found[2] or found[1])
    if not least <= instances <= most:
        what = f"nodes is {nodes}, but the run starts on {instances}"
        raise PlanError(what, "distribution.nodes", f"resources.instance_count: {most}")
    return least
