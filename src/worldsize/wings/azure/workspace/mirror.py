"""The client's copy of what nodes write into their run directories, made from their logs (`agent/log_lines.py`).

`relay/LOG.json` in the run's directory contains how far a log was read, and how long each file was then. Files are
written before it. If a client is killed between the two, the data after that length is cut off, and read again.

A log may contain anything. Only files that its node writes are written, below `attempt-N`, never through a link. Lines
that are not the agent's are text of others, and are written to `batch.log`, or the node's own `batch-0001.log`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import NodePlan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.log_lines import MOST_BYTES, LogLines, Piece
from worldsize.wings.azure.agent.node_files import NodeFiles, is_replaced
from worldsize.wings.azure.workspace.log_copies import LogCopies
from worldsize.wings.azure.workspace.mirror_files import LogState, MirroredFiles

_LOG = r"user_logs/std_log(?:_process_(\d{1,6}))?\.txt"
_ATTEMPT = "attempt-"
_MOST_ATTEMPTS = 1000
_LONGEST_WAIT = 16 * MOST_BYTES
"""Bytes without a line end up to which an incomplete line is left to be read again."""


def node_of_log(name: str) -> int | None:
    """Return the rank of the node whose process has written the log file `name` of an Azure ML job with one process on
    each node; None for other files."""
    found = re.fullmatch(_LOG, name)
    return int(found.group(1) or 0) if found else None


class Mirror(LogCopies):
    """Writer of the files of a run's nodes below the run's directory.

    nodes    those of the plan
    node_of  returns the node to which a log of this name belongs
    umask    that of the run
    """

    def __init__(
        self,
        paths: RunPaths,
        key: bytes,
        nodes: Sequence[NodePlan],
        node_of: Callable[[str], int | None] = node_of_log,
        umask: int = 0o077,
    ) -> None:
        super().__init__(paths, umask)
        self._lines = LogLines(key)
        self._nodes = {node.node_rank: [rank.rank for rank in node.ranks] for node in nodes}
        self._node_of = node_of

    def _take(self, log_name: str, files: MirroredFiles, state: LogState, new: bytes) -> int:
        complete = new[: _complete_length(new)]
        if complete:
            reading = _Reading(self._lines, files, state, self._files_of(log_name))
            for line in complete.removesuffix(b"\n").split(b"\n"):
                reading.take(line)
        return len(complete)

    def _files_of(self, log_name: str) -> NodeFiles:
        node_rank = self._node_rank(log_name)
        return NodeFiles(node_rank, self._nodes[node_rank])

    def _node_rank(self, log_name: str) -> int:
        node_rank = self._node_of(log_name)
        if node_rank is None or node_rank not in self._nodes:
            raise ValueError(f"{log_name!r:.100} is not the log of a node")
        return node_rank


def _complete_length(data: bytes) -> int:
    """Return how many bytes of `data`, new bytes of a node's log, can be processed now: whole lines. For a very long
    line without its line end, these are all bytes that cannot belong to a line of the agent."""
    end = data.rfind(b"\n") + 1
    return len(data) - MOST_BYTES if len(data) - end > _LONGEST_WAIT else end


class _Log(NamedTuple):
    attempt: int
    file: str
    version: int


class _Reading:
    """A pass over the lines of one log, each without its line end, which writes them to the files."""

    def __init__(self, lines: LogLines, files: MirroredFiles, state: LogState, own: NodeFiles) -> None:
        self._lines = lines
        self._files = files
        self._own = own
        self._rank_logs: dict[int, _Log] = {}
        self._is_own = lru_cache(maxsize=4096)(self._find_whether_own)
        for file, known in state.files.items():
            self._note_rank_log(file, known.version)

    def take(self, line: bytes) -> None:
        others, piece = self._lines.parse(line, self._log_of_rank)
        if piece is not None and not self._take_piece(piece):
            others = line
        if piece is None or others:
            self._files.append_others(others + b"\n")

    def _take_piece(self, piece: Piece) -> bool:
        """Pass `piece`, the piece of a file in a log line, to the files of the run directory if the node may write that
        file. Return whether it may."""
        if not self._is_own(piece.file) or is_replaced(piece.file) is (piece.whole is None):
            return False
        if self._files.take(piece):
            self._note_rank_log(piece.file, piece.version)
        return True

    def _find_whether_own(self, file: str) -> bool:
        attempt, name = _attempt_and_name(file)
        return attempt is not None and name in self._own

    def _note_rank_log(self, file: str, version: int) -> None:
        attempt, name = _attempt_and_name(file)
        rank = self._own.rank_of_log(name)
        if attempt is not None and rank is not None and attempt >= self._rank_logs.get(rank, _Log(0, "", 0)).attempt:
            self._rank_logs[rank] = _Log(attempt, file, version)

    def _log_of_rank(self, rank: int) -> tuple[str, int] | None:
        found = self._rank_logs.get(rank)
        return (found.file, found.version) if found else None


def _attempt_and_name(file: str) -> tuple[int | None, str]:
    """Return (attempt number, path below the attempt's directory) of the path `file` below the run's directory. The
    attempt is None if the file does not belong to one."""
    directory, _, name = file.partition("/")
    digits = directory[len(_ATTEMPT) :] if directory.startswith(_ATTEMPT) else ""
    number = parse_digits(digits)
    return (number if number is not None and number < _MOST_ATTEMPTS and str(number) == digits else None), name
