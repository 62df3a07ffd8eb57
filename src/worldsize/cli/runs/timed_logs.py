"""The output of `logs --timestamps`: a time before each line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worldsize.cli.runs.json_logs import JsonPrinter
from worldsize.cli.runs.times import rfc3339
from worldsize.errors import UsageError
from worldsize.logs.merged_log import Printer
from worldsize.logs.text import MORE, format_ranges
from worldsize.logs.timed_log import TimedLines
from worldsize.logs.times import ranks_without_times
from worldsize.plan.plan import NodePlan
from worldsize.service.runs.run import Run
from worldsize.state.exit_records import ranks_start_time

_PATIENCE = 5.0
"""Seconds after the ranks' start in which an agent may not have written any times yet."""


def require_times(run: Run, ranks: Sequence[int], option: str, now: float) -> None:
    """Raise UsageError if the logs of these ranks contain lines for which no times were recorded, so that `option`
    cannot be used. Right after the start of the ranks this is accepted, because an agent may not have written any times
    yet."""
    missing = ranks_without_times(run.paths, tuple(ranks))
    started = ranks_start_time(run.paths)
    if not missing or (started is not None and now - started < _PATIENCE and not run.look().final):
        return
    which = "rank{} {}".format("" if len(missing) == 1 else "s", format_ranges(missing))
    what = f"no times were recorded for the output of {which} of {run.id}"
    raise UsageError(what, option, "runs of an older worldsize have none: omit the option")


class TimePrinter:
    """A printer of lines with their prefixes, and with the time before the text of each line. With `as_json` it prints
    objects that contain the time."""

    def __init__(
        self,
        nodes: Sequence[NodePlan],
        shown: int,
        write: Callable[[str], object],
        as_json: JsonPrinter | None = None,
    ) -> None:
        names = {rank.rank: f"{node.node_rank}:{rank.rank}" for node in nodes for rank in node.ranks}
        self._printer = Printer(names, shown, write)
        self._as_json = as_json
        self._begun: set[int] = set()

    def show(self, found: TimedLines) -> None:
        """Print log lines of one rank with their time, as text or as JSON objects. A long line that arrives in pieces
        has one time."""
        time, who = rfc3339(found.time), (found.rank,)
        if self._as_json is not None:
            return self._as_json.show([(who, found.lines)], time)
        lines = []
        for line in found.lines:
            lines.append(line if found.rank in self._begun else f"{time} {line}")
            (self._begun.add if line.endswith(MORE) else self._begun.discard)(found.rank)
        self._printer.show([(who, lines)])
