"""The launcher of `type: ray`: one program for each node (`ray_node.py`), which has Ray's processes as its children.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from worldsize.agent.control.message_proof import derived_key
from worldsize.agent.control.rendezvous import read_rendezvous
from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.rank_process import NodeLaunch, Process
from worldsize.agent.posix.processes import HELPER_OF
from worldsize.common.atomic_files import write_bytes, write_json
from worldsize.common.named_tuple import Any
from worldsize.plan.rank_variables import variable_names
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.frameworks.agent.rank_values import ray_head, ray_node_address

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from worldsize.wings.frameworks.agent.ray_node import main; main()"
)
_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_STATISTICS, _THREADS, _DEVICES = "RAY_USAGE_STATS_ENABLED", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"
_OF_A_RANK = ("WORLDSIZE_ERROR_FILE", "TORCHELASTIC_ERROR_FILE")

_STORE_SHARE, _SHARED_MEMORY_SHARE, _LEAST_STORE = 0.3, 0.9, 100 << 20
"""The maximum share of a machine's memory, and of its shared memory, for Ray's object stores together, and the minimum
size in bytes of each store."""


class RayLauncher(Launcher):
    """The launcher that starts Ray's head and the command on the first node, and Ray's workers on the others."""

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        """Write two files for Ray on a node: the order for the node's program, and the secret that all nodes present to
        each other. Return the environment that the node's processes inherit. Each node derives the secret from the
        run's own secret, since nodes need not see the head's files. Raise OSError if the run's secret cannot be read.
        """
        os.makedirs(launch.paths.launch_dir, 0o700, exist_ok=True)
        found = read_rendezvous(launch.paths)
        if found is None:
            raise OSError(errno.ENOENT, "is not there", launch.paths.rendezvous)
        write_bytes(token_file(launch.paths), derived_key(found.token, b"ray").encode(), private=True)
        write_json(_order_file(launch), node_order(launch), private=True)
        return launch.environ

    def processes(self, launch: NodeLaunch) -> list[Process]:
        process = next(launch.ranks())
        program = (launch.plan.python, "-I", "-S", "-c", _PROGRAM, launch.paths.agent, _order_file(launch))
        command = () if launch.node.node_rank else launch.plan.argv
        environment = ray_environment(process.environment, launch.plan.environment, launch.paths)
        return [process._replace(argv=(*program, *command), environment=environment)]


LAUNCHER = RayLauncher()


def token_file(paths: RunPaths) -> str:
    """Return the path of the file with the secret without which no process can join the run's Ray cluster (Ray 2.52 and
    newer)."""
    return os.path.join(paths.launch_dir, "ray-token")


def _order_file(launch: NodeLaunch) -> str:
    return os.path.join(launch.paths.launch_dir, f"ray-{launch.node.node_rank}.json")


def ray_environment(rank: Mapping[str, str], said: Mapping[str, str], paths: RunPaths) -> dict[str, str]:
    """Return the environment variables of a rank of a Ray run: `rank`, and those that protect the cluster. The job's
    own variables, `said`, have precedence. A token in the agent's environment is left out, since it is not the run's.
    """
    own = {_MODE: "token", _TOKEN_PATH: token_file(paths), _STATISTICS: "0"}
    kept = {name: value for name, value in rank.items() if name != _TOKEN or name in said}
    return {**kept, **{name: value for name, value in own.items() if name not in said}}


def node_order(launch: NodeLaunch) -> dict[str, Any]:
    """Return the order for the program that runs Ray on a node, as JSON values. It contains no secrets, since it is
    written to the run directory.

    start       the words after `ray start`
    head, port  the address of the head's server
    nodes       the number of nodes that must have joined, within `wait` seconds, before the command starts
    set, unset  changes to the rank's variables for Ray's processes
    log         the path of Ray's own output
    """
    plan, node_rank = launch.plan, launch.node.node_rank
    head, port = ray_head(plan, launch.world)
    return {
        "start": start_options(launch),
        "head": head,
        "port": port,
        "nodes": len(plan.nodes),
        "wait": plan.rendezvous_timeout,
        "token": token_file(launch.paths),
        "errors": launch.paths.rank_error(launch.node.ranks[0].rank),
        "log": launch.paths.launcher_log(node_rank, plan.launcher),
        "set": {HELPER_OF: str(os.getpid()), **_devices(launch)},
        "unset": sorted({*_OF_A_RANK, *variable_names("rank", "local rank", "own"), *_threads(launch)}),
    }


def _threads(launch: NodeLaunch) -> tuple[str, ...]:
    """Return the variables to unset for Ray's processes: OMP_NUM_THREADS, unless the job or the agent's environment
    sets it. Ray gives each task as many threads as it has CPUs."""
    said = _THREADS in launch.plan.environment or _THREADS in launch.environ
    return () if said else (_THREADS,)


def start_options(launch: NodeLaunch) -> list[str]:
    """Return the options of `ray start` on the node. The job's own options come last, and have precedence."""
    plan, node_rank = launch.plan, launch.node.node_rank
    head, port = ray_head(plan, launch.world)
    sharing, _ = _sharing(launch)
    words = ["--block", "--disable-usage-stats", "--log-color=false"]
    words += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
    words.append(f"--node-ip-address={ray_node_address(launch.world.hosts[node_rank])}")
    words.append(f"--num-cpus={max(1, _cpus() // sharing)}")
    if sharing > 1:
        words.append(f"--object-store-memory={_store_bytes(sharing)}")
    if plan.rehearsal is not None:
        words.append(f"--num-gpus={plan.rehearsal.gpus}")
    if node_rank:
        return [*words, f"--address={head}:{port}", *plan.options.get("worker_args", ())]
    words += ["--head", f"--port={port}"]
    dashboard = plan.options.get("dashboard_host")
    if dashboard:
        at = plan.options.get("dashboard_port") or launch.world.hosts[0].ports[0]
        words += ["--include-dashboard=true", f"--dashboard-host={dashboard}", f"--dashboard-port={at}"]
    else:
        words.append("--include-dashboard=false")
    return [*words, *plan.options.get("head_args", ())]


def _sharing(launch: NodeLaunch) -> tuple[int, int]:
    """Return how many of the run's nodes are on this machine, and the position of this node among them, from 0."""
    names = [host.name for host in launch.world.hosts]
    own = names[launch.node.node_rank]
    return names.count(own), names[: launch.node.node_rank].count(own)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _store_bytes(sharing: int) -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * _STORE_SHARE
    try:
        room = os.statvfs("/dev/shm")
        memory = min(memory, room.f_bavail * room.f_frsize * _SHARED_MEMORY_SHARE)
    except OSError:  # there is none: Ray uses a directory
        pass
    return max(_LEAST_STORE, int(memory / sharing))


def _devices(launch: NodeLaunch) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES, in a mapping, with this node's share of the GPUs of a machine that several nodes of
    the run share. Empty if the node has all GPUs."""
    sharing, place = _sharing(launch)
    said = launch.environ.get(_DEVICES)
    gpus = launch.plan.gpus or 0
    if sharing == 1 or (said is None and not gpus):
        return {}
    names = said.split(",") if said else [str(number) for number in range(gpus)] if said is None else []
    return {_DEVICES: ",".join(device_share(names, sharing, place))}


def device_share(names: Sequence[str], sharing: int, place: int) -> Sequence[str]:
    """Return the contiguous share of the GPUs `names` for node `place`, counted from 0, among `sharing` nodes on one
    machine. The first nodes get one more if the division is not even."""
    each, more = divmod(len(names), sharing)
    first = place * each + min(place, more)
    return names[first : first + each + (place < more)]
