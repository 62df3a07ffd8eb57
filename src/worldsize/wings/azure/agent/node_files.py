"""Which files of an attempt a node writes, by their names: what it sends, and what is taken from it.

What agents alone read is not among them: rendezvous.json, hostfile, control.sock, launch/, errands/. Nor is what no run
on Azure Machine Learning has: steps/ of batch scripts, isolation.json and disks/ of rehearsals. What MLflow logs into
files comes with the outputs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from worldsize.plan.run_paths import RunPaths

EXIT = "exit"
DIRECTORIES = ("events", "errors", "facts", "samples", "metrics", "logs", "", EXIT)
"""Those of an attempt that such files lie in; the exit record, which tells that all others are whole, last."""

_WHOLE = (".json", ".json.torchelastic")
_CHECK = "check.json"
_MLFLOW_RUN = r"metrics/mlflow-[0-9a-f]{32}-[0-9]{1,6}"
"""When rank 0 opened one, which the reader of `mlruns/` tells attempts apart by."""

_MOST_LETTERS = 32
_HEAD = 0
_RANK = "rank"


class NodeFiles:
    """The files that one node, or a rank of its `ranks`, writes below an attempt's directory: `logs/rank-00003.log`."""

    def __init__(self, node_rank: int, ranks: Iterable[int]) -> None:
        paths = RunPaths("")
        self._rank_logs = {_below_attempt(paths, paths.rank_log(rank)): rank for rank in ranks}
        own = [paths.events(node_rank), paths.exit_record(node_rank), paths.samples(node_rank)]
        own += [paths.node_facts(node_rank), paths.tensorboard_files(node_rank)]
        for rank in self._rank_logs.values():
            own += [
                paths.rank_times(rank),
                paths.rank_error(rank),
                paths.rank_error(rank) + ".torchelastic",
                paths.logged_values(rank),
            ]
        self._names = {_below_attempt(paths, path) for path in own}.union(self._rank_logs)
        self._is_head = node_rank == _HEAD
        if self._is_head:
            self._names.add(_CHECK)
        self._log_start, self._log_end = _below_attempt(paths, paths.launcher_log(node_rank, "\0")).split("\0")

    def __contains__(self, name: str) -> bool:
        is_mlflow_run = self._is_head and re.fullmatch(_MLFLOW_RUN, name) is not None
        return name in self._names or is_mlflow_run or self._is_process_log(name)

    def rank_of_log(self, name: str) -> int | None:
        """The rank whose log has this name; None for other files."""
        return self._rank_logs.get(name)

    def _is_process_log(self, name: str) -> bool:
        """Return whether it is the log of the agent, a launcher or a service, which have names of their own."""
        if not name.startswith(self._log_start) or not name.endswith(self._log_end):
            return False
        letters = name[len(self._log_start) : -len(self._log_end)].replace("_", "").replace("-", "")
        is_word = letters.isascii() and letters.isalpha() and letters.islower() and len(letters) <= _MOST_LETTERS
        return is_word and letters != _RANK


def is_replaced(name: str) -> bool:
    """Return whether such a file comes into being as a whole; the others grow."""
    return name.endswith(_WHOLE)


def _below_attempt(paths: RunPaths, path: str) -> str:
    return path[len(paths.attempt_dir) + 1 :]
