"""What a job has left in the workspace's storage, fetched into the run's directory."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.compute.capabilities import FetchProgress
from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.credentials import StorageLogin

_DEFAULT = "default"
"""The output that the service gives every job: its logs, `./outputs` and `./logs`."""


def fetch_outputs(
    client: WorkspaceClient, name: str, paths: RunPaths, places: Mapping[str, str], progress: FetchProgress
) -> None:
    """Write what the job has left so far: `./outputs` and `./logs` into the run's directory, and each named output to
    its place."""
    found = (client.get(f"/jobs/{name}").get("properties") or {}).get("outputs") or {}
    for output, value in found.items():
        uri = str((value or {}).get("uri") or "")
        if output == _DEFAULT:
            _fetch(client, uri.rstrip("/") + "/outputs", paths.outputs, "outputs", progress)
            _fetch(client, uri.rstrip("/") + "/logs", paths.user_logs, "logs", progress)
        elif output in places:
            uri = uri or f"azureml://datastores/{DEFAULT_DATASTORE}/paths/azureml/{name}/{output}/"
            fetch = _fetch_file if (value or {}).get("jobOutputType") == "uri_file" else _fetch
            fetch(client, uri, places[output], output, progress)


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
