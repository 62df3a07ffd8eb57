"""The protocol of launchers, the lookup of a launcher by its name, and the preparation for every launcher.

A launcher is a separate module with a `LAUNCHER`, and a row of facts (`plan/launchers.py`) that names the module. Only
the module of the plan's launcher is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.agent.control.rendezvous import leaves_launcher_open
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.common.named_tuple import Protocol
from worldsize.plan.launchers import LAUNCHERS, launcher_facts, require_launcher
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import RendezvousResult, has_hostfile
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, RunWarning

FRAMEWORKS = {"horovod": "wings.horovod.agent.rendezvous_server"}
"""The modules that prepare what a framework needs in addition to its ranks, by the name of the framework. The function
`prepare(launch)` of a module starts it and returns the environment that the ranks inherit. `prepare` raises OSError."""


class Launcher(Protocol):
    """A launcher starts the ranks of a node and determines which of them failed."""

    def is_available(self, plan: Plan, environ: Mapping[str, str]) -> bool:
        """Return whether the head's node, with the environment `environ`, has the programs that this launcher needs.
        Called on the head only, and only if the plan names another launcher that may replace this one. By default,
        return True."""
        return True

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        """Write the files and start the services that this launcher and its ranks need on this node. Return the
        environment that the launcher and the ranks inherit; by default, that of `launch`. Raise OSError."""
        return launch.environ

    def processes(self, launch: NodeLaunch) -> list[Process]:
        """Return the processes that this launcher's agent must start on the node, in the order of the node's ranks.
        Pure. By default, one process for each rank."""
        return list(launch.ranks())

    def failures(self, end: NodeEnd) -> list[Failure]:
        """Return the failures, at least one, that caused a process of this launcher to end with a code other than 0.
        `end` describes the process and its end. By default, return a failure for each rank of the process, with the
        exception that the rank has recorded."""
        return rank_failures(end, end.ended.process.ranks, end.ended.code)

    def warnings(self, plan: Plan, paths: RunPaths, ranks: Sequence[int]) -> Iterable[RunWarning]:
        """Return the warnings about a node whose processes have all ended. `ranks` are the ranks that ended by
        themselves with code 0. By default, return a warning for each of `ranks` that has recorded an uncaught
        exception."""
        from worldsize.agent.outcome.rank_warnings import rank_warnings

        return rank_warnings(paths, ranks)


def find_launcher(name: str) -> Launcher:
    """Import the module of the launcher `name`, such as "direct" or "torchrun", and return its Launcher object. A
    launcher of another package is wrapped in a check of the protocol. Raise PlanError if the name is unknown,
    ConfigError if its wing is not installed."""
    require_launcher(name)
    launcher: Launcher = __import__(launcher_facts(name).module, fromlist=("LAUNCHER",)).LAUNCHER
    if name in LAUNCHERS:
        return launcher
    from worldsize.registry import load_module

    wing = load_module("wings.plugins.agent.launcher", "running launchers of other packages")
    checked: Launcher = wing.ExternalLauncher(name, launcher)
    return checked


def choose_launcher(plan: Plan, environ: Mapping[str, str]) -> str:
    """Return the name of the launcher that the head chooses: the plan's own if it is available on the head's node, else
    the alternative that the plan names. Return "" if the plan leaves no choice. Raise PlanError if a launcher is
    unknown."""
    launcher = find_launcher(plan.launcher)  # imported once for all agents that are forked from this process
    if not leaves_launcher_open(plan):
        return ""
    return plan.launcher if launcher.is_available(plan, environ) else str(plan.options["otherwise"])


def rank_failures(end: NodeEnd, ranks: Sequence[int], code: int) -> list[Failure]:
    """Return a Failure for each of these ranks of the node that `end` describes, with the exception that the rank has
    recorded, if any, and with exit code `code`."""
    told = end.ended.process.environment.get("TORCHELASTIC_ERROR_FILE")
    errors = ((rank, read_error(end.paths, rank, told)) for rank in ranks)
    return [rank_failure(rank, end.node_rank, end.host, code, end.ended.time, error, end.oom) for rank, error in errors]


def prepare_launch(launch: NodeLaunch) -> NodeLaunch:
    """Write the files and start the services that the launcher or the ranks need on this node. Return `launch` with the
    environment that the ranks inherit. Raise OSError; raise PlanError if the launcher of another package does not
    fulfil the protocol."""
    if launch.plan.batch is None:
        launch = launch._replace(environ=_prepare_framework(launch))
    return launch._replace(environ=find_launcher(launch.plan.launcher).prepare(launch))


def _prepare_framework(launch: NodeLaunch) -> Mapping[str, str]:
    if has_hostfile(launch.plan):
        write_hostfile(launch.plan, launch.world, launch.paths)
    if launch.plan.framework not in FRAMEWORKS:
        return launch.environ
    from worldsize.registry import load_module

    what = f"the distribution {launch.plan.framework}"
    environ: Mapping[str, str] = load_module(FRAMEWORKS[launch.plan.framework], what).prepare(launch)
    return environ


def write_hostfile(plan: Plan, world: RendezvousResult, paths: RunPaths) -> None:
    """Write the run's hostfile, which DeepSpeed and Open MPI read: a line `NAME slots=N` for each node, with its number
    of ranks. Every node writes the same complete file."""
    from worldsize.common.atomic_files import write_text
    from worldsize.plan.node_names import node_names

    names = node_names([host.name for host in world.hosts])
    write_text(paths.hostfile, "".join(f"{name} slots={len(node.ranks)}\n" for name, node in zip(names, plan.nodes)))


def umask_of(plan: Plan) -> int | None:
    """Return the umask with which a node's processes are started. None means the agent's own umask: the ranks of such a
    launcher set their own umask after they have opened their logs."""
    return None if launcher_facts(plan.launcher).sets_umask else plan.ranks_umask
