"""The progress display of an array whose runs are the trials of a search: each trial when it ends, and the best one."""

from __future__ import annotations

import os

from worldsize.cli.runs.array import ArrayProgress
from worldsize.service.runs.array import RunArray
from worldsize.state.records import RunState, Status
from worldsize.wings.trials.agent.record import output_names, read_results
from worldsize.wings.trials.agent.search import best_result, result_text


class SearchProgress(ArrayProgress):
    """A progress display with a line for each trial, once it has ended."""

    _ended = 0

    def _new_lines(self, statuses: list[Status]) -> list[str]:
        before, self._ended = self._ended, sum(status.final for status in statuses)
        if self._ended == before:
            return []
        results = read_results(self._array.directory, self._array.array)
        new = sorted((each for each in results if each.number not in self._told), key=lambda each: each.ended)
        self._told.update(each.number for each in new)
        metric = (self._array.array.search or {})["metric"]
        return [f"trial {each.number}/{len(statuses)}  {result_text(each, metric)}" for each in new]

    def outcome(self, statuses: list[Status]) -> list[str]:
        succeeded = self._array.overall(statuses).state == RunState.SUCCEEDED
        return [*([] if succeeded else super().outcome(statuses)), *best_lines(self._array)]


def best_lines(array: RunArray) -> list[str]:
    """Return two lines about a search, whose trials are the runs of `array`: the best trial so far, and the paths of
    its configuration and of the table of all trials. Return an empty list before a trial was measured."""
    search = array.array.search or {}
    best = best_result(read_results(array.directory, array.array), search["goal"])
    if best is None:
        return []
    table, configuration = (os.path.join(array.paths.outputs, name) for name in output_names(search))
    return [f"best: {result_text(best, search['metric'])}", f"{configuration} contains it, {table} all trials"]
