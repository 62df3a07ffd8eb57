"""Observation of a run's job: the service's report, and the data that the nodes' logs contain since the last look."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from worldsize.compute.base import Handle
from worldsize.errors import DamagedRun, WorldsizeError
from worldsize.plan.array import is_cancelled
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.service.runs.status import read_plan
from worldsize.state.records import Observation
from worldsize.wings.azure.agent.job_node import KEY_FILE
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.errors import MissingResource
from worldsize.wings.azure.workspace.log_copies import LogCopies
from worldsize.wings.azure.workspace.mirror import Mirror, node_of_log
from worldsize.wings.azure.workspace.service_files import ServiceJobFiles, ranks_of_logs
from worldsize.wings.azure.workspace.states import observation
from worldsize.wings.azure.workspace.verdict import end_records, service_time, with_time_limit

_ROUNDS = 15
_EMPTY_ROUNDS = 3
_PAUSE = 1.0
"""Seconds between two readings of the logs of an ended job without agents. The values before are the most readings, and
the number of further readings at least if a log is empty."""


def observe_run(client: WorkspaceClient, handle: Handle) -> Observation:
    """Fetch the files that the nodes of a run on Azure ML have written into its local directory, and return the
    observation of its job. Errors of the service or of the connection give an unknown observation."""
    try:
        seen = look_at_job(client, handle)
        if seen.phase not in ("running", "ended"):
            return seen
        if handle.get("agent") is False:
            return follow_service_job(client, handle, seen)
        complete = fetch_logs(client, handle)
        return seen if complete else seen._replace(over=False)  # a log may arrive later than the job's state
    except WorldsizeError as error:
        return Observation("unknown", message=f"Azure ML: {error.what}")
    except OSError as error:
        return Observation("unknown", message=f"its directory cannot be read: {error.strerror or error}")


def look_at_job(client: WorkspaceClient, handle: Handle) -> Observation:
    """Query Azure ML for the job of `handle`, and return its state as an Observation. Raise WorldsizeError if the
    service refuses or does not answer."""
    name = native_name(handle)
    try:
        properties = client.get(f"/jobs/{name}").get("properties") or {}
    except MissingResource:
        return Observation("absent", message=f"Azure ML no longer knows job {name}")
    said = None
    if properties.get("status") == "Failed":
        said = _details(client, name).get("error")
        said = said.get("error", said) if isinstance(said, Mapping) else None
    return observation(properties, said)


def fetch_logs(client: WorkspaceClient, handle: Handle) -> bool:
    """Read the new parts of the nodes' logs, and write the files that they contain into the directory of a run of this
    user. Return whether every node's exit record is there; True also for a run for which nothing can be fetched. Raise
    WorldsizeError."""
    paths, plan = _own_run(handle)
    key = _key(paths) if plan is not None else None
    if plan is None or key is None:
        return True
    mirror = Mirror(paths, key, plan.nodes, umask=plan.umask)
    for name, url in sorted(_log_files(_details(client, native_name(handle))).items()):
        node_rank = node_of_log(name)
        if node_rank is not None and node_rank < len(plan.agents):
            _fetch_log(client, mirror, name, url)
    return all(os.path.exists(paths.exit_record(node.node_rank)) for node in plan.agents)


def follow_service_job(client: WorkspaceClient, handle: Handle, seen: Observation) -> Observation:
    """Write the logs of the ranks of a job without agents, and records of the service's report on the job, into the
    directory of a run of this user. Return the observation `seen`, with a time limit added to it if that ended the job.
    Raise WorldsizeError."""
    paths, plan = _own_run(handle)
    if plan is None:
        return seen
    details = _fetch_rank_logs(client, handle, paths, plan, seen.phase == "ended")
    records = ServiceJobFiles(paths, {}, plan.umask)
    started, ended = service_time(details.get("startTimeUtc")), service_time(details.get("endTimeUtc"))
    if started is not None or seen.phase == "running":
        records.write_start(time.time() if started is None else started)
    if seen.phase == "ended":
        seen = seen if is_cancelled(paths) else with_time_limit(seen, details, plan.timeout)
        ended = time.time() if ended is None else ended
        records.write_end(end_records(plan, seen, ended if started is None else started, ended))
    return seen


def _fetch_rank_logs(
    client: WorkspaceClient, handle: Handle, paths: RunPaths, plan: Plan, is_over: bool
) -> dict[str, Any]:
    """Write the new parts of the ranks' logs of a job without agents into the run directory, and return the job's
    details from the run history. After the end of a job its logs may still be arriving. They are then read until all
    exist and do not grow any more, at most `_ROUNDS` times."""
    sizes: dict[str, int | None] = {}
    for number in range(_ROUNDS):
        if number:
            client.pause(_PAUSE)
        before, details = sizes, _details(client, native_name(handle))
        urls = _log_files(details)
        ranks = ranks_of_logs(urls, plan.nodes)
        files = ServiceJobFiles(paths, ranks, plan.umask)
        sizes = {name: _fetch_log(client, files, name, urls[name]) for name in ranks}
        is_quiet = sizes == before and len(sizes) == plan.world_size and None not in sizes.values()
        if not is_over or (is_quiet and (all(sizes.values()) or number >= _EMPTY_ROUNDS)):
            break
    return details


def _own_run(handle: Handle) -> tuple[RunPaths, Plan | None]:
    """Return the paths and the plan of the run that `handle` belongs to. The plan is None if nothing may be fetched
    into the run directory, since it is not this user's own or is damaged."""
    paths = RunPaths(handle.get("run_dir") or "")
    if not paths.root or not is_own(paths):
        return paths, None
    try:
        return paths, read_plan(paths)
    except DamagedRun:
        return paths, None


def _fetch_log(client: WorkspaceClient, copies: LogCopies, name: str, url: str) -> int | None:
    """Read the new part of the log `name` from the address `url`, and pass it to `copies`. Return how many of its bytes
    are finished; None for a log that is listed but does not exist yet. The last known byte is requested again: if the
    log has none there, it was replaced by a shorter one."""
    start = copies.offset(name)
    while True:
        first = max(start - 1, 0)
        try:
            data = client.get_url(url, first)
        except MissingResource:
            return None
        if start and not data:
            start = copies.offset(name, 0)
            continue
        now = copies.apply(name, first, data)
        if now <= start:
            return now
        start = now


def _log_files(details: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the signed addresses of a job's logs, by the names of the logs, from the job's `details` in the run
    history."""
    return details.get("logFiles") or {}


def native_name(handle: Handle) -> str:
    """Return the name by which Azure ML knows the job of the run with this `handle`."""
    return str(handle.get("name") or handle["run_id"])


def _details(client: WorkspaceClient, name: str) -> dict[str, Any]:
    found = client.run_history(f"/runs/{name}/details")
    return found if isinstance(found, dict) else {}


def _key(paths: RunPaths) -> bytes | None:
    from worldsize.common.atomic_files import read_file

    try:
        return bytes.fromhex(read_file(f"{paths.root}/{KEY_FILE}").decode("ascii"))
    except (OSError, ValueError):
        return None
