"""The files of a run without agents, in a job that the service itself runs: each process's log unchanged, and records
of the service's report on the job.

The records have the form of those that agents leave, so that clients read the run like any other. As with agents, a run
without them has not succeeded. They are made only from the service's report of the end. They name no host, and contain
no exits of ranks, about which the service reports nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from worldsize.plan.plan import WITHOUT_DEVICE, NodePlan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import ExitRecord
from worldsize.wings.azure.agent.log_lines import Piece
from worldsize.wings.azure.agent.node_files import is_replaced
from worldsize.wings.azure.workspace.log_copies import LogCopies
from worldsize.wings.azure.workspace.mirror_files import LogState, MirroredFiles

_LOG = re.compile(r"user_logs/std_log(?:_process_(\d{1,6}))?(_ps)?\.txt")
_RECORDS = "records"
"""The name that is used in place of a log's name for records from the service's report."""


def ranks_of_logs(names: Iterable[str], nodes: Sequence[NodePlan]) -> dict[str, int]:
    """Return the rank of each log of a process of an Azure ML job among the file `names`, as a mapping of name to rank,
    with at most one name for each rank.

    Numbers in names count processes, with parameter servers last. Numbers in names with `_ps` count only parameter
    servers. The log of a single process may be without a number.
    """
    ranks = [rank for node in nodes for rank in node.ranks]
    servers = [rank.rank for rank in ranks if rank.role in WITHOUT_DEVICE]
    others = [rank.rank for rank in ranks if rank.role not in WITHOUT_DEVICE]
    found: dict[int, str] = {}
    for name in sorted(names):
        match = _LOG.fullmatch(name)
        counted = (servers if match[2] else [*others, *servers]) if match else []
        number = int(match[1] or 0) if match else 0
        if number < len(counted):
            found.setdefault(counted[number], name)
    return {name: rank for rank, name in found.items()}


class ServiceJobFiles(LogCopies):
    """Writer of the files of a run without agents. `ranks` are the ranks of logs, by the logs' names. `umask` is that
    of the run."""

    def __init__(self, paths: RunPaths, ranks: Mapping[str, int], umask: int = 0o077) -> None:
        super().__init__(paths, umask)
        self._ranks = ranks

    def write_start(self, time: float) -> None:
        """Record in the run's events when the processes of the Azure ML job started, unless that was recorded before.
        Raise StorageError."""
        event = {"time": time, "event": "ranks_started", "from": "Azure ML"}
        self._write_once({self._paths.events(0): json.dumps(event) + "\n"})

    def write_end(self, records: Sequence[ExitRecord]) -> None:
        """Write the exit records of the nodes, made from the service's report, into the run directory, unless they
        exist. Raise StorageError."""
        self._write_once(
            {self._paths.exit_record(record.node_rank): json.dumps(record.to_json()) for record in records}
        )

    def _write_once(self, texts: Mapping[str, str]) -> None:
        with self._locked(_RECORDS) as files:
            state = files.load()
            for path, text in texts.items():
                file, data = os.path.relpath(path, self._paths.root), text.encode()
                if file not in state.files:
                    files.take(Piece(file, 0, 0, data, len(data) if is_replaced(file) else None))
            files.write(state)

    def _take(self, log_name: str, files: MirroredFiles, state: LogState, new: bytes) -> int:
        if new:
            file = os.path.relpath(self._paths.rank_log(self._ranks[log_name]), self._paths.root)
            files.take(Piece(file, 0, state.offset, new))
        return len(new)

    def _node_rank(self, log_name: str) -> int:
        if log_name != _RECORDS and log_name not in self._ranks:
            raise ValueError(f"{log_name!r:.100} is not the log of a rank")
        return 0
