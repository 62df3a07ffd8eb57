"""The distribution `type: tensorflow`: roles that find each other through `TF_CONFIG`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.base import Arrangement, count_key, ignore_unknown_keywords
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.plan.plan import NodePlan, RankPlan


@ignore_unknown_keywords
class TensorFlowDistribution(NamedTuple):
    """The roles in `TF_CONFIG`. Without a worker_count there is one worker per instance."""

    parameter_server_count: int = 0
    worker_count: int | None = None
    chief: bool = False
    evaluator: bool = False
    type: str = "tensorflow"

    @staticmethod
    def keys() -> Keys:
        return {
            "worker_count": count_key("Workers; by default one per node."),
            "parameter_server_count": count_key("Parameter servers.", minimum=0),
            "chief": Key("flag", "A chief in addition to the workers: with parameter servers, the task that trains."),
            "evaluator": Key("flag", "One more task, which evaluates checkpoints while the others train."),
        }

    def world_size(self, instances: int) -> int:
        return (self.worker_count or instances) + self.parameter_server_count + self.chief + self.evaluator

    def arrange(self, instances: int) -> Arrangement:
        """Return the arrangement of a TensorFlow job's tasks on `instances` nodes. Spread workers evenly over the
        nodes, with the chief before them on the first node. Place each of the other roles on the node with the fewest
        tasks. Raise PlanError if there are fewer tasks than nodes.

        Parameter servers never end by themselves, nor do workers that a chief trains with, nor an evaluator.
        """
        ranks = self.world_size(instances)
        if ranks < instances:
            what = "{} task{} on {} nodes would leave some nodes without a task".format(
                ranks, "" if ranks == 1 else "s", instances
            )
            raise PlanError(what, "distribution.worker_count", "ask for fewer nodes, or for more workers")
        trainers = ("chief",) * self.chief + ("worker",) * (self.worker_count or instances)
        others = ("ps",) * self.parameter_server_count + ("evaluator",) * self.evaluator
        nodes = role_layout(instances, trainers, others)
        if self.parameter_server_count:
            lingering = ("evaluator",) if self.chief else ("worker", "evaluator")
            return Arrangement(nodes, ports="rank", leaders=(0,), lingering=lingering)
        if self.evaluator:
            training = tuple(rank.rank for node in nodes for rank in node.ranks if rank.role != "evaluator")
            return Arrangement(nodes, ports="rank", leaders=training, lingering=("evaluator",))
        return Arrangement(nodes, ports="rank")


def role_layout(nodes: int, equal: Sequence[str], others: Sequence[str] = ()) -> tuple[NodePlan, ...]:
    """Return the plan of each node, with one rank for each role. The roles of `equal` are placed in even, contiguous
    shares, with one more on the first nodes. Each of `others` is then placed where the fewest ranks are. Ranks, and the
    indices within each role, count node by node. With at least as many ranks as nodes no node stays empty."""
    each, more = divmod(len(equal), nodes)
    starts = [node * each + min(node, more) for node in range(nodes + 1)]
    placed = [list(equal[first:end]) for first, end in pairwise(starts)]
    for role in others:
        min(placed, key=len).append(role)
    counts: dict[str, int] = {}
    plans, rank = [], 0
    for node_rank, roles in enumerate(placed):
        ranks = []
        for local_rank, role in enumerate(roles):
            ranks.append(RankPlan(rank, local_rank, role, counts.get(role, 0)))
            counts[role] = counts.get(role, 0) + 1
            rank += 1
        plans.append(NodePlan(node_rank, tuple(ranks)))
    return tuple(plans)
