"""The launcher of a command `deepspeed train.py …`: it starts once per node, without ssh and pdsh.

DeepSpeed's launcher finds its nodes in WORLDSIZE_HOSTFILE, and starts its node's ranks itself. The hook that every
Python of the run loads turns each of them into a rank of the run, with its variables, its own log and its own error
file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import launcher_failure, rank_errors
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.agent.outcome.rank_failure import rank_failure
from worldsize.common.atomic_files import write_bytes
from worldsize.plan.plan import NodePlan
from worldsize.plan.rank_variables import variable_names
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure

HOOK = "WORLDSIZE_LAUNCH"
"""The variable that names the directory with the files of ranks, for the hook."""

_AUTOTUNING = "WORLDSIZE_AUTOTUNING"
_FOR_RANKS_ALONE = ("WORLDSIZE_INRANK",)
"""Variables that the launcher itself must not have, since it imports torch as well."""

_DEEPSPEED_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")

_SHIM = """#!/bin/sh
# Runs the real deepspeed with the allocation's options. Options of the command come later, and override them.
here=${0%/*}
IFS=:
for directory in $PATH; do
    if [ "$directory" != "$here" ] && [ -x "$directory/deepspeed" ]; then
        autotuning=$WORLDSIZE_AUTOTUNING
        unset IFS WORLDSIZE_AUTOTUNING
        exec "$directory/deepspeed" --hostfile "$WORLDSIZE_HOSTFILE" --no_ssh --node_rank "$WORLDSIZE_NODE_RANK" \\
            --master_addr "$MASTER_ADDR" --master_port "$MASTER_PORT" \\
            ${autotuning:+--autotuning "$autotuning"} "$@"
    fi
done
echo "deepspeed: command not found" >&2
exit 127
"""

_PDSH = """#!/bin/sh
# DeepSpeed's autotuning kills a trial's ranks by name through this; here they have ended with their launcher, and other
# runs on the machine may have the same name.
exit 0
"""


class DeepSpeedLauncher(Launcher):
    """The launcher that starts DeepSpeed's own launcher once per node."""

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        os.makedirs(launch.paths.launch_dir, 0o700, exist_ok=True)
        ranks = list(launch.ranks())
        write_launch_files(ranks, _environment(launch, ranks), launch.paths, launch.node)
        return launch.environ

    def processes(self, launch: NodeLaunch) -> list[Process]:
        return [launch.node_process()._replace(environment=_environment(launch, launch.ranks()))]

    def failures(self, end: NodeEnd) -> list[Failure]:
        """Return the failures of a node's ranks after DeepSpeed's launcher has exited: one for each rank that left an
        exception, or that of the node's only rank. If the failed rank is unknown, which DeepSpeed does not report,
        return one failure of the launcher."""
        end = end._replace(ended=end.ended._replace(code=rank_exit_code(end.ended.code)))
        process, code, time = end.ended
        errors = rank_errors(end.plan, end.paths)
        failed = [rank for rank in process.ranks if rank in errors]
        if not failed and len(process.ranks) > 1:
            return [launcher_failure(end)]
        return [
            rank_failure(rank, end.node_rank, end.host, code, time, errors.get(rank), end.oom)
            for rank in failed or process.ranks
        ]


LAUNCHER = DeepSpeedLauncher()


def _environment(launch: NodeLaunch, ranks: Iterable[Process]) -> Mapping[str, str]:
    autotuning = str(launch.plan.options.get("autotuning", ""))
    return deepspeed_environment(ranks, launch.paths, launch.node, autotuning)


def launcher_directory(paths: RunPaths, node: NodePlan) -> str:
    """Return the node's directory of substitute programs (`deepspeed`, `pdsh`), which is first on the PATH of
    DeepSpeed's launcher."""
    return os.path.join(paths.launch_dir, f"node-{node.node_rank}")


def deepspeed_environment(
    ranks: Iterable[Process], paths: RunPaths, node: NodePlan, autotuning: str = ""
) -> dict[str, str]:
    """Return the environment of DeepSpeed's launcher on a node: the variables that have the same value for all of the
    node's `ranks`, and those of the launcher itself. `autotuning` is the value of its option `--autotuning`."""
    first, *others = (process.environment for process in ranks)
    own = {name for name in first if any(other.get(name) != first[name] for other in others)}
    own.update(variable_names("rank", "local rank", "own"), _FOR_RANKS_ALONE)
    environment = {name: value for name, value in first.items() if name not in own}
    environment["PATH"] = f"{launcher_directory(paths, node)}:{first['PATH']}"
    asked = {_AUTOTUNING: autotuning} if autotuning else {}
    return {**environment, **asked, HOOK: paths.launch_dir}


def write_launch_files(
    ranks: Iterable[Process], environment: Mapping[str, str], paths: RunPaths, node: NodePlan
) -> None:
    """Write the shell program that takes the place of `deepspeed` on the node's PATH, and a JSON file for each of the
    node's ranks with its own variables and log. With autotuning, also write a `pdsh` that does nothing. Raise OSError.
    """
    directory = launcher_directory(paths, node)
    os.makedirs(directory, exist_ok=True)
    shims = {"deepspeed": _SHIM, **({"pdsh": _PDSH} if _AUTOTUNING in environment else {})}
    for name, text in shims.items():
        shim = os.path.join(directory, name)
        with open(shim, "w") as file:
            file.write(text)
        os.chmod(shim, 0o700)
    for process in ranks:
        changed = {
            name: value
            for name, value in process.environment.items()
            if environment.get(name) != value and name not in _DEEPSPEED_VARIABLES
        }
        path = os.path.join(paths.launch_dir, f"rank-{process.ranks[0]}.json")
        write_bytes(path, json.dumps({"environment": changed, "log": process.log}).encode())


def rank_exit_code(code: int) -> int:
    """Return a rank's exit code for the exit code of DeepSpeed's launcher: 128+N for signal N, any other code
    unchanged. The launcher exits with -N for a signal, which a shell sees as 256 - N."""
    return 128 + 256 - code if code > 256 - 65 else code
