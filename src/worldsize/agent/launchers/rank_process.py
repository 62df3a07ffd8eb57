"""Ranks as processes: the programs, environments, logs and CPUs that follow from the plan, and the data that launchers
work with."""

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
"""The CPUs of each local rank. It is empty if ranks are not bound."""


class Process(NamedTuple):
    """A process that the agent starts. The process of a launcher represents all ranks of the node."""

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
    """A process that has imported modules, and from which a node's ranks are forked. `doubt` is the reason why it
    cannot fork them; "" if it can."""

    doubt: str

    def start(self, ranks: Sequence[Process]) -> list[int]:
        """Fork a process for each of these ranks from this process with imported modules. Each fork waits for `go`.
        Return the pids, or [] if `doubt` is not empty."""

    def go(self, count: int) -> None:
        """Allow the first `count` forked processes to continue and run the ranks' program."""

    def close(self) -> None:
        """Terminate the process from which ranks are forked, unless it has forked ranks that continue."""


class NodeLaunch(NamedTuple):
    """The description of what one node starts, once all nodes are known.

    environ  the environment that its processes inherit
    shares   the CPUs of each of its ranks
    forks    the process that its ranks are forked from; None if they are started without one
    """

    plan: Plan
    world: RendezvousResult
    node: NodePlan
    paths: RunPaths
    environ: Mapping[str, str]
    shares: Shares = ()
    forks: RankForks | None = None

    def ranks(self) -> Iterator[Process]:
        """Yield a Process (command, environment, log, CPUs) for each rank of this node, as every launcher needs it. The
        number of threads of a rank is the plan's, else the number of its CPUs, else an equal share of the node's CPUs.
        """
        plan, paths = self.plan, self.paths
        held: tuple[int, ...] = (signal.SIGINT,) if plan.shielded else ()
        if plan.terminal:
            held = (signal.SIGTSTP,)  # no shell would notice that the rank stops, or could continue it
        for index, rank in enumerate(self.node.ranks):
            cpus = self.shares[index] if self.shares else ()
            context = RankContext(plan, self.world, self.node, rank, paths.root, paths.rank_error(rank.rank))
            values = rank_environment(context, self.environ, plan.threads or len(cpus) or _even_share(self.node))
            hook = [paths.inrank, values["PYTHONPATH"]] if values.get("PYTHONPATH") else [paths.inrank]
            values["PYTHONPATH"] = os.pathsep.join(hook)
            yield Process((rank.rank,), plan.argv, values, paths.rank_log(rank.rank), cpus, held, plan.terminal)

    def node_process(self) -> Process:
        """Return a single Process that represents all ranks of this node, for a launcher that starts the ranks itself.
        It equals the first rank's process, but has the launcher's own log and is not bound to CPUs."""
        log = self.paths.launcher_log(self.node.node_rank, self.plan.launcher)
        return next(self.ranks())._replace(ranks=tuple(rank.rank for rank in self.node.ranks), log=log, cpus=())


class NodeEnd(NamedTuple):
    """The end of a process of a node. `hosts` are the names of all nodes. `oom` states whether the kernel has killed a
    process on this node because memory had run out."""

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
    """Return the CPU numbers of each rank of this node, if the plan requests binding (`bind`) on the node and the
    launcher binds ranks; else an empty tuple."""
    if plan.bind != "node" or not launcher_facts(plan.launcher).binds_ranks:
        return ()
    from worldsize.agent.launchers.cpu_binding import own_cpu_shares

    return own_cpu_shares(len(node.ranks))


def _even_share(node: NodePlan) -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // len(node.ranks))
