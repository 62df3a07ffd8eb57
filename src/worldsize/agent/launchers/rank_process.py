"""From the plan to ranks as processes: their programs, environments, logs and CPUs; and what launchers start from."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple, Protocol, TypeAlias
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.rank_environment import rank_environment
from worldsize.plan.rank_variables import RankContext, RendezvousResult
from worldsize.plan.run_paths import RunPaths

Shares: TypeAlias = "Sequence[tuple[int, ...]]"
"""The CPUs of each local rank; empty: ranks are not bound."""


class Process(NamedTuple):
    """One process that the agent starts; a launcher stands for all ranks of the node."""

    ranks: tuple[int, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: str
    cpus: tuple[int, ...]
    held: tuple[int, ...] = ()
    terminal: bool = False


class EndedProcess(NamedTuple):
    """A process that has ended with `code`, at `time` (Unix seconds)."""

    process: Process
    code: int
    time: float


class RankForks(Protocol):
    """A process that has imported modules, and from which a node's ranks are forked. `doubt`: why it cannot fork them;
    "" if it can."""

    doubt: str

    def start(self, ranks: Sequence[Process]) -> list[int]:
        """Fork a process for each rank, which waits until `go`; return their pids, or [] where there is a doubt."""

    def go(self, count: int) -> None:
        """Let the forks, `count` of them, continue as ranks."""

    def close(self) -> None:
        """End it, unless it has forked ranks that go on."""


class NodeLaunch(NamedTuple):
    """What is to be started on one node, once all nodes are known.

    environ  the environment that its processes inherit
    shares   the CPUs of each of its ranks
    forks    what its ranks are forked from; None: they start plainly
    """

    plan: Plan
    world: RendezvousResult
    node: NodePlan
    paths: RunPaths
    environ: Mapping[str, str]
    shares: Shares = ()
    forks: RankForks | None = None

    def ranks(self) -> Iterator[Process]:
        """Yield each of the node's ranks as a process of its own, whichever launcher starts it. A rank has as many
        threads as the plan says, else as it has CPUs, else an equal share of the node's."""
        plan, paths = self.plan, self.paths
        held: tuple[int, ...] = (signal.SIGINT,) if plan.shielded else ()
        if plan.terminal:
            held = (signal.SIGTSTP,)  # no shell would notice that it stops, and nobody could continue it
        for index, rank in enumerate(self.node.ranks):
            cpus = self.shares[index] if self.shares else ()
            context = RankContext(plan, self.world, self.node, rank, paths.root, paths.rank_error(rank.rank))
            values = rank_environment(context, self.environ, plan.threads or len(cpus) or _even_share(self.node))
            hook = [paths.inrank, values["PYTHONPATH"]] if values.get("PYTHONPATH") else [paths.inrank]
            values["PYTHONPATH"] = os.pathsep.join(hook)
            yield Process((rank.rank,), plan.argv, values, paths.rank_log(rank.rank), cpus, held, plan.terminal)

    def node_process(self) -> Process:
        """One process for all of the node's ranks: as the first rank's would be, with a log of the launcher's own."""
        log = self.paths.launcher_log(self.node.node_rank, self.plan.launcher)
        return next(self.ranks())._replace(ranks=tuple(rank.rank for rank in self.node.ranks), log=log, cpus=())


class NodeEnd(NamedTuple):
    """How a process of a node has ended. `hosts`: the names of all nodes. `oom`: whether the kernel has killed a
    process here because memory had run out."""

    plan: Plan
    paths: RunPaths
    node_rank: int
    hosts: Sequence[str]
    ended: EndedProcess
    oom: bool

    @property
    def host(self) -> str:
        return self.hosts[self.node_rank]


def node_shares(plan: Plan, node: NodePlan) -> Shares:
    """Return the CPUs of each rank of this very node, where the plan asks for that and the launcher binds ranks; else
    none."""
    if plan.bind != "node" or not launcher_facts(plan.launcher).binds_ranks:
        return ()
    from worldsize.agent.launchers.cpu_binding import own_cpu_shares

    return own_cpu_shares(len(node.ranks))


def _even_share(node: NodePlan) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // len(node.ranks))
