"""The notices about a run: from before its start, from nodes, and from ranks. Notices do not change how a run ends."""

from __future__ import annotations

import os

from worldsize.cli.output import report_message
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.state.notices import EVENT, NODE, PREPARATION, Notice, notice_of, read_rank_notices
from worldsize.trust.secrets import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from worldsize.cli.runs.follow import LogReader

_SHOWN = 10


def read_notices(paths: RunPaths, node_ranks: Iterable[int]) -> list[Notice]:
    """Return all notices of a run, each once, with secrets masked: those of its record, those of these nodes in its
    latest attempt, and those of its ranks."""
    recorded = read_object(paths.record).get("notices")
    values = recorded if isinstance(recorded, list) else []
    told = [found for value in values if (found := notice_of(value, PREPARATION))]
    told += node_notices(paths, node_ranks)
    told += [found for value in read_rank_notices(paths) if (found := notice_of(value, NODE))]
    return list(dict.fromkeys(notice._replace(text=mask_text(notice.text)) for notice in told))


def node_notices(paths: RunPaths, node_ranks: Iterable[int]) -> list[Notice]:
    """Return the notices that the agents of these nodes have recorded as events in an attempt of the run, each once."""
    return list(dict.fromkeys(each for node_rank in node_ranks for each in _of_events(read_events(paths, node_rank))))


def notices_data(paths: RunPaths, node_ranks: Iterable[int]) -> list[dict[str, Any]]:
    """Return all notices of a run as dictionaries for JSON output: [{id, file, line, text}]."""
    return [
        {"id": each.id, "file": each.file, "line": each.line, "text": each.text}
        for each in read_notices(paths, node_ranks)
    ]


def notice_lines(texts: list[str]) -> list[str]:
    """Return the first 10 texts of a run's notices, each as a line "notice: …", and a line with the number of the
    others."""
    more = [f"notice: and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return ["notice: " + text for text in texts[:_SHOWN]] + more


class LogWithNotices:
    """A reader of an attempt's log that first reports the notices of its first node on stderr."""

    def __init__(self, paths: RunPaths, log: LogReader) -> None:
        self._paths = paths
        self._log = log
        self._size = 0
        self._told = 0

    def poll(self) -> bool:
        """Show the notices of the attempt's first node and the log lines since the last call. Return whether there were
        any."""
        told = self._tell()
        return self._log.poll() or told

    def finish(self) -> None:
        """Show the notices and log lines of the attempt that have not been shown yet."""
        self._tell()
        self._log.finish()

    def _tell(self) -> bool:
        """Report the notices that the attempt's first node has recorded since the last call on stderr. Return whether
        there were any. Notices of services come while ranks run."""
        if (size := self._events_size()) == self._size:
            return False
        self._size = size
        found = _of_events(read_events(self._paths, 0))
        new, self._told = found[self._told :], len(found)
        for notice in new:
            report_message("notice: " + notice.text)
        return bool(new)

    def _events_size(self) -> int:
        try:
            return os.stat(self._paths.events(0)).st_size
        except OSError:  # the file does not exist before the first node's agent starts
            return self._size


def _of_events(events: Iterable[dict[str, object]]) -> list[Notice]:
    found = (notice_of({**event, "text": str(event.get("text", ""))}, NODE) for event in events if _is_notice(event))
    return [notice._replace(text=mask_text(notice.text)) for notice in found if notice]


def _is_notice(event: dict[str, object]) -> bool:
    return event.get("event") == EVENT
