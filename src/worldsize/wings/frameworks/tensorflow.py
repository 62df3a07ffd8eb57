"""`type: tensorflow`: roles that find each other through `TF_CONFIG`."""

from __future__ import annotations

from typing import NamedTuple

from worldsize.jobspec.distributions.base import Arrangement, ignore_unknown_keywords
from worldsize.plan.rank_layout import role_layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.keys.key import Keys


@ignore_unknown_keywords
class TensorFlowDistribution(NamedTuple):
    """`TF_CONFIG`; without a worker_count there is one worker per instance."""

    parameter_server_count: int = 0
    worker_count: int | None = None
    chief: bool = False
    evaluator: bool = False
    type: str = "tensorflow"

    @staticmethod
    def keys() -> Keys:
        from worldsize.jobspec.distributions.base import count_key
        from worldsize.jobspec.keys.key import Key

        return {
            "worker_count": count_key("Workers; by default one per node."),
            "parameter_server_count": count_key("Parameter servers.", minimum=0),
            "chief": Key("flag", "A chief beside the workers: with parameter servers, the one that trains."),
            "evaluator": Key("flag", "One more task, which evaluates checkpoints while the others train."),
        }

    def world_size(self, instances: int) -> int:
        return (self.worker_count or instances) + self.parameter_server_count + self.chief + self.evaluator

    def arrange(self, instances: int) -> Arrangement:
        """Workers are spread evenly, the chief before them on the first node; the others go where the fewest tasks are.

        Parameter servers never end by themselves, nor do workers that a chief trains with, nor an evaluator.
        """
        ranks = self.world_size(instances)
        if ranks < instances:
            from worldsize.errors import PlanError

            what = "{} task{} on {} nodes would leave some without any".format(
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
