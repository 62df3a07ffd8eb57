"""Runs of this machine that another run waits for."""

from __future__ import annotations

import time

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import has_same_owner
from worldsize.common.json_values import PARSE_ERRORS, read_record
from worldsize.common.named_tuple import Any
from worldsize.plan.array import read_after
from worldsize.plan.handle import read_handle
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunState
from worldsize.state.result import status_of

_LAG = 3.0
"""Seconds that a run whose process is gone may take to record its result."""


class Dependency:
    """A run, or the elements of an array, that another run waits for. `roots` are the directories of those that have
    not ended yet. `waiting` is the directory of the run that waits. A directory with another owner than `waiting` is
    ignored.

    refused  the reason why the dependency will never be met; None while it may be
    """

    def __init__(self, run_id: str, roots: list[str], any_end: bool, waiting: str) -> None:
        self.run_id = run_id
        self.refused: str | None = None
        self._roots = roots
        self._any_end = any_end
        self._waiting = waiting
        self._gone_since: dict[str, float] = {}

    def is_met(self) -> bool:
        while self._roots and self.refused is None:
            state = self._final_state(self._roots[0])
            if state is None:
                return False
            if state != RunState.SUCCEEDED and not self._any_end:
                self.refused = f"{self.run_id} to succeed, and that run is {state}"
                return False
            self._roots.pop(0)
        return self.refused is None

    def _final_state(self, root: str) -> str | None:
        paths = RunPaths(root)
        try:
            own = has_same_owner(root, self._waiting)
            ended = read_record(paths.result, status_of) if own else None
            if ended is not None:
                return ended.state
            alive = own and _is_alive(read_handle(paths))
        except (OSError, *PARSE_ERRORS):  # missing or damaged files do not show that the run is alive
            alive = False
        if alive:
            self._gone_since.pop(root, None)
            return None
        since = self._gone_since.setdefault(root, time.monotonic())
        return RunState.LOST if time.monotonic() - since > _LAG else None


def _is_alive(handle: Any) -> bool:
    """Return whether the process that a run's `handle` identifies lives; False if there is no handle. A process on
    another machine counts as alive, since nothing is known about it."""
    if not handle:
        return False
    return bool(handle["host"] != processes.host_name()) or processes.start_time(handle["pid"]) == handle["start_time"]


def read_dependencies(root: str) -> list[Dependency]:
    """Return the Dependency objects for the runs that the run or array in `root` waits for, which after.json in that
    directory names; none if there is no such file."""
    return [Dependency(each["run"], each["roots"], each["any_end"], root) for each in read_after(root)]
