"""`logs -o json`: each line of each rank as one JSON object."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.logs.reader import RankLog
from worldsize.logs.tail import tail_offset
from worldsize.logs.text import MORE
from worldsize.plan.plan import NodePlan
from worldsize.plan.run_paths import RunPaths


class JsonLines:
    """Read like `LogFollower`: `poll` writes what is new, `finish` the rest, rank after rank. `marks` stand in each."""

    def __init__(
        self,
        paths: RunPaths,
        nodes: Sequence[NodePlan],
        ranks: Sequence[int],
        grep: re.Pattern[str] | None,
        write: Callable[[str], object],
        tail: int | None,
        marks: Mapping[str, object] = {},
    ) -> None:
        self._marks = marks
        self._node_of = {rank.rank: node.node_rank for node in nodes for rank in node.ranks}
        self._grep = grep
        self._write = write
        self._logs = {}
        self._begun = dict.fromkeys(ranks, "")
        for rank in ranks:
            path = paths.rank_log(rank)
            self._logs[rank] = RankLog(path, 0 if tail is None else tail_offset(path, tail))

    def poll(self) -> bool:
        shown = [self._show_new(rank, log) for rank, log in self._logs.items()]
        return any(shown)

    def finish(self) -> None:
        for rank, log in self._logs.items():
            while self._show_new(rank, log):
                pass
            self._show(rank, log.close())

    def _show_new(self, rank: int, log: RankLog) -> bool:
        before = log.offset
        self._show(rank, log.read(time.monotonic()))
        return log.offset != before

    def _show(self, rank: int, pieces: list[str]) -> None:
        """A long line comes in pieces, and is one object all the same."""
        rows = []
        for piece in pieces:
            line = self._begun[rank] + piece
            self._begun[rank] = ""
            if line.endswith(MORE):
                self._begun[rank] = line.removesuffix(MORE)
            elif self._grep is None or self._grep.search(line):
                row = {"rank": rank, "node": self._node_of[rank], "line": line, **self._marks}
                rows.append(json.dumps(row, ensure_ascii=False) + "\n")
        if rows:
            self._write("".join(rows))
