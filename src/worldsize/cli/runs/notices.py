"""What nodes say about themselves before their ranks start: notices, which change nothing about how a run ends."""

from __future__ import annotations

import os

from worldsize.cli.output import report_message
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.trust.secrets import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from worldsize.cli.runs.follow import LogReader

_SHOWN = 10


def read_notices(paths: RunPaths, node_ranks: Iterable[int]) -> list[str]:
    """The notices of these nodes, each text once."""
    events = (event for node_rank in node_ranks for event in read_events(paths, node_rank))
    return list(dict.fromkeys(_texts(events)))


def notice_lines(notices: list[str]) -> list[str]:
    """The first of them, each as a line."""
    more = [f"notice: and {len(notices) - _SHOWN} more"] if len(notices) > _SHOWN else []
    return ["notice: " + text for text in notices[:_SHOWN]] + more


class LogWithNotices:
    """An attempt's log, and before it the notices of its first node, on stderr."""

    def __init__(self, paths: RunPaths, log: LogReader) -> None:
        self._paths = paths
        self._log = log
        self._size = 0
        self._told = 0

    def poll(self) -> bool:
        """Show what is new; whether there was something."""
        told = self._tell()
        return self._log.poll() or told

    def finish(self) -> None:
        """Show the rest."""
        self._tell()
        self._log.finish()

    def _tell(self) -> bool:
        """Show the notices since the last time; whether there were any. Those of services come while ranks run."""
        if (size := self._events_size()) == self._size:
            return False
        self._size = size
        texts = _texts(read_events(self._paths, 0))
        new, self._told = texts[self._told :], len(texts)
        for text in new:
            report_message("notice: " + text)
        return bool(new)

    def _events_size(self) -> int:
        try:
            return os.stat(self._paths.events(0)).st_size
        except OSError:  # there is no such file before the first node's agent starts
            return self._size


def _texts(events: Iterable[dict[str, object]]) -> list[str]:
    return [mask_text(str(event.get("text", ""))) for event in events if event.get("event") == "notice"]
