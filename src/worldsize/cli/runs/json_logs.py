"""The output of `logs -o json`: each line of each rank as one JSON object."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from worldsize.logs.align import Group
from worldsize.logs.text import MORE
from worldsize.plan.plan import NodePlan


class JsonPrinter:
    """A printer of lines of one rank each, as JSON objects. Each object contains `marks`. Only lines in which `grep`
    matches are written."""

    def __init__(
        self,
        nodes: Sequence[NodePlan],
        grep: re.Pattern[str] | None,
        write: Callable[[str], object],
        marks: Mapping[str, object],
    ) -> None:
        self._node_of = {rank.rank: node.node_rank for node in nodes for rank in node.ranks}
        self._grep = grep
        self._write = write
        self._marks = marks
        self._begun: dict[int, str] = {}

    def show(self, groups: Sequence[Group], time: str | None = None) -> None:
        """Write the log lines in `groups`, each of one rank, as one JSON object each. A long line that arrives in
        pieces is still one object. `time` is the time at which the lines were written, if the objects must contain it.
        """
        said = {} if time is None else {"time": time}
        rows = []
        for (rank,), pieces in groups:
            for piece in pieces:
                line = self._begun.pop(rank, "") + piece
                if line.endswith(MORE):
                    self._begun[rank] = line.removesuffix(MORE)
                elif self._grep is None or self._grep.search(line):
                    row = {"rank": rank, "node": self._node_of[rank], **said, "line": line, **self._marks}
                    rows.append(json.dumps(row, ensure_ascii=False) + "\n")
        if rows:
            self._write("".join(rows))
