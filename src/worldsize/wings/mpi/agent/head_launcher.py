"""The base of launchers of which one process, on the head, starts the ranks of all nodes.

A process that it starts becomes a rank by a file that the node's agent has written. On every other node, a process
waits until the head sends a line to execute there, or terminates it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.launcher_failures import FailedRank, last_line, launcher_failure, rank_errors
from worldsize.agent.launchers.rank_file import write_rank_files
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.agent.outcome.rank_failure import rank_failure
from worldsize.state.records import Failure, Reason

_WAIT = 'IFS= read -r line <"$0" && eval "$line"'


class HeadLauncher(Launcher):
    """A launcher with one process on the head, such as mpirun, that starts all ranks. Subclasses define its command
    line, its environment, and how it reports the first failure."""

    def argv(self, launch: NodeLaunch, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command line of the launcher program (such as mpirun) that the head executes to start all
        ranks."""
        raise NotImplementedError

    def environment(self, launch: NodeLaunch, rank: Mapping[str, str]) -> Mapping[str, str]:
        """Return the environment of the launcher program (such as mpirun), based on `rank`, the environment of one of
        the node's ranks."""
        raise NotImplementedError

    def first_cause(self, end: NodeEnd) -> FailedRank | None:
        """Return the rank that the launcher program (such as mpirun) itself reports as the first to fail; None if it
        names none."""
        raise NotImplementedError

    def prepare_head(self, launch: NodeLaunch, environment: Mapping[str, str]) -> None:
        """Write the files that the launcher program on the head needs, if any. Raise OSError if they cannot be
        written."""

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        os.makedirs(launch.paths.launch_dir, 0o700, exist_ok=True)
        ranks = list(launch.ranks())
        environment = self.environment(launch, ranks[0].environment)
        write_rank_files(ranks, launch.plan.launcher, environment, launch.paths, launch.plan.ranks_umask)
        if launch.node.node_rank == 0:
            self.prepare_head(launch, environment)
        return launch.environ

    def processes(self, launch: NodeLaunch) -> list[Process]:
        process = launch.node_process()
        environment = self.environment(launch, process.environment)
        waiting = ("/bin/sh", "-c", _WAIT, launch.plan.options.get("source", "<the head's word>"))
        argv = waiting if launch.node.node_rank else self.argv(launch, environment)
        return [process._replace(argv=argv, environment=environment)]

    def failures(self, end: NodeEnd) -> list[Failure]:
        if end.node_rank:
            return [_daemon_failure(end)]
        return _all_ranks_failures(end, self.first_cause(end)) or [launcher_failure(end)]


def log_text(log: str) -> str:
    """Return the output of the launcher program from the log file `log`; "" if the file cannot be read."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _daemon_failure(end: NodeEnd) -> Failure:
    """Return the failure of the launcher's process (such as mpirun's daemon) on a node other than the head. It is
    rarely the first failure, since the process ends with the launcher. The words "remote process exited" give
    precedence to other failures."""
    process, code, time = end.ended
    launcher, where = end.plan.launcher, f"node {end.node_rank} ({end.host})"
    if code in (126, 127):
        what = f"{launcher}'s daemon cannot be started on {where}: {last_line(process.log)}"
    else:
        what = f"{launcher}'s daemon on {where} ended with code {code} (remote process exited)"
    return Failure(Reason.EXIT_CODE, what, end.node_rank, None, code, time)


def _all_ranks_failures(end: NodeEnd, cause: FailedRank | None) -> list[Failure]:
    """Return the failures of all ranks of the run that are known to have failed. `cause` is the first rank that the
    launcher saw end, and it may have ended because another one did. Without an exception of its own, it counts as the
    earliest, since its time is unknown."""
    nodes = {rank.rank: node.node_rank for node in end.plan.nodes for rank in node.ranks}
    errors, time = rank_errors(end.plan, end.paths), end.ended.time
    found = []
    if cause is not None and cause.rank in nodes:
        node = nodes[cause.rank]
        error = errors.pop(cause.rank, None)
        first = min([time, *(each["time"] for each in errors.values() if each["time"])])
        found.append(
            rank_failure(cause.rank, node, end.hosts[node], cause.code, time if error else first, error, end.oom)
        )
    for rank, error in errors.items():
        found.append(rank_failure(rank, nodes[rank], end.hosts[nodes[rank]], 1, time, error, False))
    return found
