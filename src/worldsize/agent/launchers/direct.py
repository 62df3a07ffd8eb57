"""`launcher: direct`: each rank is a process that the agent itself starts."""

from __future__ import annotations

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.state.records import Failure


class DirectLauncher(Launcher):
    """The agent itself, which starts each rank as a process of its own."""

    def processes(self, launch: NodeLaunch) -> list[Process]:
        return list(launch.ranks())

    def failures(self, end: NodeEnd) -> list[Failure]:
        process, code, time = end.ended
        told = process.environment.get("TORCHELASTIC_ERROR_FILE")
        errors = ((rank, read_error(end.paths, rank, told)) for rank in process.ranks)
        return [rank_failure(rank, end.node_rank, end.host, code, time, error, end.oom) for rank, error in errors]


LAUNCHER = DirectLauncher()
