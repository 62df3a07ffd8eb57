"""The summaries that `list` shows of runs: of finished ones from their result.json, of others from a query that the
caller provides."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from worldsize.common.atomic_files import MAX_RECORD_BYTES, open_regular_file, read_file, write_bytes
from worldsize.common.json_values import is_number
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunState
from worldsize.state.result import is_code_of
from worldsize.store.find import is_replaced, list_ids, run_paths
from worldsize.store.runs import runs_link_dir
from worldsize.trust.directories import is_reliable_directory
from worldsize.trust.owners import is_ours

_CACHED_FROM = 200
_REWRITTEN_FROM = 100


class Summary(msgspec.Struct, frozen=True, gc=False):
    """The data that a list shows of a run, of an array or of an element, as `state.summary.summary_of` and its callers
    write it. Times are in Unix seconds; `exit_code` is None until it is final.

    experiment_name, description, tags  the labels of the job, by which people sort runs
    states  for an array: how many elements are in each state
    array   for an element: its array's id; `inputs`: its inputs that vary
    virtual_gpus  for a rehearsal: the number of virtual GPUs of each node
    """

    id: str
    name: str
    state: str
    reason: str | None
    compute: str
    nodes: int
    ranks: int
    created: float
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    experiment_name: str | None = None
    description: str | None = None
    tags: dict[str, str] = {}
    states: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    array: str | msgspec.UnsetType = msgspec.UNSET
    inputs: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    virtual_gpus: int | msgspec.UnsetType = msgspec.UNSET


class _Failure(msgspec.Struct):
    reason: str
    message: str


class _Result(msgspec.Struct):
    summary: Summary
    message: str
    failure: _Failure | None


_result_decoder = msgspec.json.Decoder(_Result)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)
"""The exceptions that the decoders raise, such as UnicodeDecodeError for bytes that are not UTF-8."""

_cache_decoder = msgspec.msgpack.Decoder(list[Summary])


def final_summary(result_path: str) -> Summary | None:
    """Return the Summary of an ended run from its result.json at `result_path`; None if there is no such file, if it
    cannot be read or is not that of an ended run, and if it is another user's."""
    try:
        with open(open_regular_file(result_path), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not is_ours(status) or status.st_size > MAX_RECORD_BYTES:
                return None
            found = _result_decoder.decode(file.read(status.st_size + 1)).summary
    except (OSError, *_UNREADABLE):
        return None
    return found if _is_final(found) else None


def _is_final(summary: Summary) -> bool:
    """Return whether `summary` can be that of a run that has ended, by its state, exit code and times. Readers of a
    single run accept nothing else as its end either."""
    for time in (summary.created, summary.started, summary.ended):
        if time is not None and not is_number(time):
            return False
    return summary.state in RunState.FINAL and is_code_of(summary.state, summary.exit_code)


def _may_have_late_result(directory: str, summary: Summary) -> bool:
    """Return whether a run with the state LOST in its summary has an exit record of its head node by now, so that its
    actual end may be known."""
    record = f"{directory}/{summary.id}/attempt-0/exit/node-0000.json"
    return summary.state == RunState.LOST and os.path.exists(record)


def _settled_summary(directory: str, run_id: str, cached: Summary | None) -> Summary | None:
    """Return the summary of the run `run_id` if it has a result, from `cached` or its result.json; None if it has none,
    and if it was LOST and may have another result by now."""
    summary = cached or final_summary(f"{directory}/{run_id}/result.json")
    usable = summary is not None and summary.id == run_id and not _may_have_late_result(directory, summary)
    return summary if usable else None


def summaries(home: str, ids: Sequence[str], live: Callable[[list[RunPaths]], list[Summary]]) -> list[Summary]:
    """Return the Summary of each run id in `ids`, in order, as `worldsize list` shows them. `live` is called once with
    all runs that have no result, and those that were LOST and whose records may have appeared since.

    With more than `_CACHED_FROM` ids, a cache of final summaries is read first, `<home>/runs/.summaries`. It may be
    deleted, and is written again when many summaries are missing in it.
    """
    directory = runs_link_dir(home)
    caches = len(ids) > _CACHED_FROM and is_reliable_directory(directory)
    cached = _read_cache(directory) if caches else {}
    found = {run_id: _settled_summary(directory, run_id, cached.get(run_id)) for run_id in ids}
    new = {run_id: summary for run_id, summary in found.items() if summary is not None and run_id not in cached}
    open_ids = [run_id for run_id, summary in found.items() if summary is None]
    found.update((run_id, _replaced_summary(run_id)) for run_id in open_ids if is_replaced(home, run_id))
    open_ids = [run_id for run_id in open_ids if found[run_id] is None]
    if open_ids:
        found.update(zip(open_ids, live([run_paths(home, run_id) for run_id in open_ids]), strict=True))
    if caches and len(new) >= _REWRITTEN_FROM:
        existing = set(list_ids(home))
        _write_cache(directory, [each for run_id, each in {**cached, **new}.items() if run_id in existing])
    return [summary for summary in found.values() if summary is not None]


def _replaced_summary(run_id: str) -> Summary:
    return Summary(run_id, "", RunState.LOST, None, "", 0, 0, 0.0, exit_code=1)


def _cache_path(directory: str) -> str:
    return os.path.join(directory, ".summaries")


def _read_cache(directory: str) -> dict[str, Summary]:
    try:
        found = _cache_decoder.decode(read_file(_cache_path(directory)))
        return {summary.id: summary for summary in found if _is_final(summary)}
    except (OSError, *_UNREADABLE):
        return {}


def _write_cache(directory: str, found: list[Summary]) -> None:
    """Write the cache of final summaries to the directory of runs. A failure is ignored, since a missing cache only
    costs time."""
    try:
        write_bytes(_cache_path(directory), msgspec.msgpack.encode(found))
    except OSError:
        pass
