"""Listing of the outputs that a job has left in the workspace's storage, and fetching them into the run's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from worldsize.compute.capabilities import FetchProgress
from worldsize.errors import JobError, StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.kept_outputs import is_fetched, run_that_keeps
from worldsize.wings.azure.storage.blobs import Blob, Container
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.credentials import StorageLogin
from worldsize.wings.azure.workspace.observe import native_name
from worldsize.wings.azure.workspace.settings import WorkspaceSettings, is_same_workspace

_DEFAULT = "default"
"""The output that the service adds to every job: its logs, `./outputs` and `./logs`."""


class _Kept(NamedTuple):
    """An output in the workspace's storage. `place` is the path in the run's directory to which it belongs."""

    what: str
    uri: str
    place: str
    is_file: bool = False


def list_outputs(client: WorkspaceClient, name: str, paths: RunPaths, places: Mapping[str, str]) -> dict[str, int]:
    """Return the size in bytes of each file that the job `name` has left in the workspace's storage so far, by the path
    in the run's directory to which it belongs. `places` are the paths of the job's named outputs."""
    found = {}
    for kept in _kept_outputs(client, name, paths, places):
        with _datastore_of(client, kept) as container:
            found.update({place: blob.size for place, blob in _blobs(container, kept).items()})
    return found


def fetch_outputs(
    client: WorkspaceClient,
    name: str,
    paths: RunPaths,
    places: Mapping[str, str],
    is_wanted: Callable[[str], bool],
    progress: FetchProgress,
) -> None:
    """Download the output files of the job `name` from the workspace's storage to the paths in the run's directory to
    which they belong, if `is_wanted` is true for the path."""
    for kept in _kept_outputs(client, name, paths, places):
        with _datastore_of(client, kept) as container:
            wanted = {place: blob for place, blob in _blobs(container, kept).items() if is_wanted(place)}
            if wanted:
                container.download(wanted, partial(progress.transfer, kept.what))


def former_output(client: WorkspaceClient, workspace: WorkspaceSettings, path: str) -> str | None:
    """Return the azureml:// URI of the output of a former run that belongs at the local `path` in its run's directory,
    for use as an input; None for all other paths, and for an output of another workspace that has been fetched. Raise
    JobError if the run has left nothing there, or if it is in another workspace and has not been fetched."""
    run = run_that_keeps(path, os.environ)
    if run is None:
        return None
    handle = run.native() or {}
    if not is_same_workspace(workspace, handle):
        if is_fetched(path):
            return None
        what = f"{path} has not been fetched from the workspace where run {run.id} has left it"
        raise JobError(what, "inputs", f"worldsize fetch {run.id}")
    places = {name: output.path for name, output in run.outputs.items()}
    kept = _kept_outputs(client, native_name(handle), run.paths, places)
    above = [each for each in kept if f"{path}/".startswith(f"{each.place}/")]
    address = _address_below(client, max(above, key=lambda each: len(each.place)), path) if above else None
    if address is None:
        what = f"run {run.id} has no output (yet) for {path}"
        raise JobError(what, "inputs", f"worldsize outputs {run.id} lists its files")
    return address


def _address_below(client: WorkspaceClient, kept: _Kept, path: str) -> str | None:
    datastore, place = datastore_path(kept.uri)
    place += path[len(kept.place) :]
    with open_datastore(client, datastore, StorageLogin()) as container:
        names = container.find(place)
    if not names:
        return None
    return f"azureml://datastores/{datastore}/paths/{place}{'/' if any(names) else ''}"


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


def _datastore_of(client: WorkspaceClient, kept: _Kept) -> Container:
    return open_datastore(client, datastore_path(kept.uri)[0], StorageLogin())


def _blobs(container: Container, kept: _Kept) -> dict[str, Blob]:
    """Return the blobs of an output in the storage container, by the local paths to which they belong."""
    found = container.find(datastore_path(kept.uri)[1])
    return {kept.place + name: blob for name, blob in found.items() if bool(name) != kept.is_file}


def datastore_path(uri: str) -> tuple[str, str]:
    """Return (datastore name, path in it) from a URI `azureml://…/datastores/NAME/paths/PATH`. `paths/` may be missing.
    Raise StorageError for any other URI."""
    found = re.fullmatch(r"azureml://(?:.*/)?datastores/([^/]+)/(?:paths/)?(.*)", uri)
    if found is None:
        raise StorageError(f"is at {uri:.200}, which is not in a datastore of the workspace", "outputs")
    return found[1], found[2].rstrip("/")
