"""What a job has left in the workspace's storage, fetched into the run's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.compute.capabilities import FetchProgress
from worldsize.errors import JobError, StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.kept_outputs import is_fetched, run_that_keeps
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.credentials import StorageLogin
from worldsize.wings.azure.workspace.observe import native_name
from worldsize.wings.azure.workspace.settings import WorkspaceSettings, is_same_workspace

_DEFAULT = "default"
"""The output that the service gives every job: its logs, `./outputs` and `./logs`."""


class _Kept(NamedTuple):
    """`place`: where in the run's directory it belongs."""

    what: str
    uri: str
    place: str
    is_file: bool = False


def fetch_outputs(
    client: WorkspaceClient, name: str, paths: RunPaths, places: Mapping[str, str], progress: FetchProgress
) -> None:
    """Write what the job has left so far: `./outputs` and `./logs` into the run's directory, and each named output to
    its place."""
    for kept in _kept_outputs(client, name, paths, places):
        fetch = _fetch_file if kept.is_file else _fetch
        fetch(client, kept.uri, kept.place, kept.what, progress)


def former_output(client: WorkspaceClient, workspace: WorkspaceSettings, path: str) -> str | None:
    """The URI of what a former run in the workspace has left so far, by where it belongs in the run's directory; None
    for all other paths. JobError where it has left nothing there, or in another workspace what nobody has fetched."""
    run = run_that_keeps(path, os.environ)
    if run is None:
        return None
    handle = run.native() or {}
    if not is_same_workspace(workspace, handle):
        if is_fetched(path):
            return None
        what = f"{path} has not been fetched from the workspace where run {run.id} has left it"
        raise JobError(what, "inputs", f"worldsize outputs {run.id}")
    places = {name: output.path for name, output in run.outputs.items()}
    kept = _kept_outputs(client, native_name(handle), run.paths, places)
    above = [each for each in kept if f"{path}/".startswith(f"{each.place}/")]
    address = _address_below(client, max(above, key=lambda each: len(each.place)), path) if above else None
    if address is None:
        what = f"run {run.id} has left nothing (yet) that belongs at {path}"
        raise JobError(what, "inputs", f"worldsize outputs {run.id} shows what there is")
    return address


def _address_below(client: WorkspaceClient, kept: _Kept, path: str) -> str | None:
    datastore, place = datastore_path(kept.uri)
    place += path[len(kept.place) :]
    with open_datastore(client, datastore, StorageLogin()) as container:
        names = container.names(place)
    is_folder = any(each.startswith(f"{place}/") for each in names)
    if place not in names and not is_folder:
        return None
    return f"azureml://datastores/{datastore}/paths/{place}{'/' if is_folder else ''}"


def _kept_outputs(client: WorkspaceClient, name: str, paths: RunPaths, places: Mapping[str, str]) -> Iterator[_Kept]:
    found = (client.get(f"/jobs/{name}").get("properties") or {}).get("outputs") or {}
    for output, value in found.items():
        uri = str((value or {}).get("uri") or "")
        if output == _DEFAULT:
            yield _Kept("outputs", uri.rstrip("/") + "/outputs", paths.outputs)
            yield _Kept("logs", uri.rstrip("/") + "/logs", paths.user_logs)
        elif output in places:
            uri = uri or f"azureml://datastores/{DEFAULT_DATASTORE}/paths/azureml/{name}/{output}/"
            yield _Kept(output, uri, places[output], (value or {}).get("jobOutputType") == "uri_file")


def _fetch(client: WorkspaceClient, uri: str, folder: str, what: str, progress: FetchProgress) -> None:
    datastore, path = datastore_path(uri)
    with open_datastore(client, datastore, StorageLogin()) as container:
        container.download(path, folder, lambda done, total: progress.transfer(what, done, total))


def _fetch_file(client: WorkspaceClient, uri: str, place: str, what: str, progress: FetchProgress) -> None:
    """Write the one file that the output is; nothing where there is none (yet)."""
    datastore, path = datastore_path(uri)
    with open_datastore(client, datastore, StorageLogin()) as container:
        if path not in container.names(path):
            return
        partial = f"{place}.part"
        try:
            with open(partial, "wb") as file:
                for chunk in container.chunks(path):
                    file.write(chunk)
                    progress.transfer(what, file.tell(), file.tell())
            os.replace(partial, place)
        except OSError as error:
            raise storage_error(error, place) from None
        finally:
            try_unlink(partial)


def datastore_path(uri: str) -> tuple[str, str]:
    """The datastore and the path in it of `azureml://…/datastores/NAME/paths/PATH`; `paths/` may be missing.
    StorageError for what is none."""
    found = re.fullmatch(r"azureml://(?:.*/)?datastores/([^/]+)/(?:paths/)?(.*)", uri)
    if found is None:
        raise StorageError(f"lies at {uri:.200}, which is no place in a datastore of the workspace", "outputs")
    return found[1], found[2].rstrip("/")
