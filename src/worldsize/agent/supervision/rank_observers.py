"""What a node's agent has observed beside its ranks, once they have run for a moment: what they use, and what the node
is made of."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.agent.supervision.node_facts_helper import NodeFactsHelper
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.rank_sampling import RankSampling
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths


class RankObservers:
    """The observers of one node's ranks. Nothing of them raises. `parts`: what is due by the clock."""

    def __init__(self, ranks: RankProcesses) -> None:
        self._sampling, self._facts = RankSampling(ranks), NodeFactsHelper(ranks)
        self.parts = (self._sampling.part, self._facts.part)

    def plan(
        self, plan: Plan, paths: RunPaths, node: NodePlan, environ: Mapping[str, str], agents: int, local: bool
    ) -> None:
        """Have them begin later. `agents`: how many of the run's agents share this machine; `local`: all of them do,
        and the first one tells for all what the nodes are made of. To be called when the ranks have been started."""
        if plan.metrics:
            self._sampling.plan_first(plan, paths, node, environ, agents)
        told = plan.agents if local else (node,)
        if told[0].node_rank == node.node_rank:
            self._facts.plan_start(plan, paths, [each.node_rank for each in told], environ)

    def finish(self) -> None:
        """Have the last sample written, and end what belongs to them. To be called once, when the ranks have ended."""
        self._sampling.finish()
        self._facts.finish()
