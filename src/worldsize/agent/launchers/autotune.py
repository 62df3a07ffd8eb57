"""What an agent starts for a search, in place of its node's ranks: a tuner, with the addresses of the other nodes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import daemon_failure, launcher_failure
from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.rank_environment import RendezvousResult
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
    from worldsize.state.records import Failure


class AutotuneLauncher(Launcher):
    """A tuner on each node: the head's leads, and writes into the log of the first rank."""

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        write_order(launch.plan, launch.world, launch.node, launch.paths)
        return launch.environ

    def processes(self, launch: NodeLaunch) -> list[Process]:
        process = launch.node_process()
        if launch.node.node_rank == 0:
            process = process._replace(log=launch.paths.rank_log(process.ranks[0]))
        return [process._replace(argv=tuner_argv(launch.node, launch.paths), environment=launch.environ)]

    def failures(self, end: NodeEnd) -> list[Failure]:
        return [daemon_failure(end) if end.node_rank else launcher_failure(end)]


LAUNCHER = AutotuneLauncher()


def order_file(paths: RunPaths, node_rank: int) -> str:
    """What a node's agent writes for its tuner: the plan as it is there, where the other nodes are."""
    return os.path.join(paths.launch_dir, f"autotune-{node_rank}.json")


def write_order(plan: Plan, world: RendezvousResult, node: NodePlan, paths: RunPaths) -> None:
    """Raises OSError."""
    os.makedirs(paths.launch_dir, 0o700, exist_ok=True)
    addresses = [host.address for host in world.hosts]
    order = {"plan": plan.to_json(), "addresses": addresses, "port": world.hosts[0].ports[0]}
    write_json(order_file(paths, node.node_rank), order, private=True)


def tuner_argv(node: NodePlan, paths: RunPaths) -> tuple[str, ...]:
    words = ("--node-rank", str(node.node_rank), "--attempt", str(paths.attempt), "--tune")
    return (sys.executable, paths.agent, paths.root, *words)
