"""What the service says of a run's job, and what the nodes' logs have brought back since the last look."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from worldsize.compute.base import Handle
from worldsize.errors import DamagedRun, WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.service.runs.status import read_plan
from worldsize.state.records import Observation
from worldsize.wings.azure.agent.job_node import KEY_FILE
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.errors import MissingResource
from worldsize.wings.azure.workspace.mirror import Mirror, node_of_log
from worldsize.wings.azure.workspace.states import observation


def observe_run(client: WorkspaceClient, handle: Handle) -> Observation:
    """The observation of the run's job, once what its nodes have written has been fetched into its directory. Errors of
    the service or of the connection give an unknown observation."""
    try:
        seen = look_at_job(client, handle)
        if seen.phase not in ("running", "ended"):
            return seen
        complete = fetch_logs(client, handle)
        return seen if complete else seen._replace(over=False)  # a log may come later than the job's state
    except WorldsizeError as error:
        return Observation("unknown", message=f"Azure ML: {error.what}")
    except OSError as error:
        return Observation("unknown", message=f"its directory cannot be read: {error.strerror or error}")


def look_at_job(client: WorkspaceClient, handle: Handle) -> Observation:
    """What the service says of the job. WorldsizeError."""
    name = native_name(handle)
    try:
        properties = client.get(f"/jobs/{name}").get("properties") or {}
    except MissingResource:
        return Observation("absent", message=f"Azure ML knows no job {name} any more")
    said = None
    if properties.get("status") == "Failed":
        said = _details(client, name).get("error")
        said = said.get("error", said) if isinstance(said, Mapping) else None
    return observation(properties, said)


def fetch_logs(client: WorkspaceClient, handle: Handle) -> bool:
    """Write what the nodes' logs have brought since the last time into the directory of a run of this user's own.
    Returns whether every node's last record is there; also for a run of which nothing can be fetched.
    WorldsizeError."""
    paths = RunPaths(handle.get("run_dir") or "")
    key = _key(paths) if paths.root else None
    if key is None or not is_own(paths):
        return True
    try:
        plan = read_plan(paths)
    except DamagedRun:
        return True
    if plan is None:
        return True
    mirror = Mirror(paths, key, plan.nodes, umask=plan.umask)
    for name, url in sorted((_details(client, native_name(handle)).get("logFiles") or {}).items()):
        node_rank = node_of_log(name)
        if node_rank is not None and node_rank < len(plan.agents):
            start = mirror.offset(name)
            while (data := _new_bytes(client, url, start)) and (now := mirror.apply(name, start, data)) > start:
                start = now
    return all(os.path.exists(paths.exit_record(node.node_rank)) for node in plan.agents)


def _new_bytes(client: WorkspaceClient, url: str, start: int) -> bytes:
    """What the log has from byte `start` on; nothing where it is named, and not there yet."""
    try:
        return client.get_url(url, start)
    except MissingResource:
        return b""


def native_name(handle: Handle) -> str:
    """What the service calls the run's job."""
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
