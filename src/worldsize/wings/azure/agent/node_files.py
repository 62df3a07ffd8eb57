"""The names of the files of an attempt that a node writes: those that it sends, and those that the client accepts from
it.

Files that only agents read are not among them: rendezvous.json, hostfile, control.sock, launch/, and `errands/`. Nor
are files that no run on Azure Machine Learning has: steps/ of batch scripts, isolation.json and disks/ of rehearsals.
Files that MLflow logs are sent with the outputs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from worldsize.plan.run_paths import RunPaths

EXIT = "exit"
DIRECTORIES = ("events", "errors", "facts", "samples", "metrics", "logs", "", EXIT)
"""The directories of an attempt that contain such files. The directory of the exit record is last, since that record
shows that all other files are complete."""

_WHOLE = (".json", ".json.torchelastic")
_CHECK = "check.json"
_MLFLOW_RUN = r"metrics/mlflow-[0-9a-f]{32}-[0-9]{1,6}"
"""Pattern of the file that records when rank 0 opened an MLflow run. The reader of `mlruns/` distinguishes attempts by
it."""

_MOST_LETTERS = 32
_HEAD = 0
_RANK = "rank"


class NodeFiles:
    """The names of the files that one node, or one of its `ranks`, writes below an attempt's directory:
    `logs/rank-00003.log`."""

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
        """Return the rank whose log has the path `name` below the attempt's directory; None for other files."""
        return self._rank_logs.get(name)

    def _is_process_log(self, name: str) -> bool:
        """Return whether the path `name` below the attempt's directory is that of a log of this node's agent, launcher
        or service, which have names of their own."""
        if not name.startswith(self._log_start) or not name.endswith(self._log_end):
            return False
        letters = name[len(self._log_start) : -len(self._log_end)].replace("_", "").replace("-", "")
        is_word = letters.isascii() and letters.isalpha() and letters.islower() and len(letters) <= _MOST_LETTERS
        return is_word and letters != _RANK


def is_replaced(name: str) -> bool:
    """Return whether a node's file called `name` is written as a whole, as JSON files are. Other files, such as logs,
    grow."""
    return name.endswith(_WHOLE)


def _below_attempt(paths: RunPaths, path: str) -> str:
    return path[len(paths.attempt_dir) + 1 :]
