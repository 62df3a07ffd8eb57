"""The container behind a datastore of a workspace."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from worldsize.errors import ConfigError, SubmitRejected
from worldsize.wings.azure.storage.assets import AssetClient
from worldsize.wings.azure.storage.blobs import Container
from worldsize.wings.azure.workspace.errors import MissingResource

DEFAULT_DATASTORE = "workspaceblobstore"


def open_datastore(client: AssetClient, name: str = DEFAULT_DATASTORE, credential: Any = None) -> Container:
    """Return the blob Container behind the datastore `name` of a workspace, with a signature that the workspace issues
    and renews, or with the account's key. If the datastore has no secret, or its secret may not be read, `credential`
    of azure-identity is used. Raise ConfigError for a datastore without blobs, MissingResource if there is none; else
    the errors of the client."""
    path = f"/datastores/{quote(name, safe='')}"
    try:
        store = client.get(path)["properties"]
    except MissingResource:
        raise MissingResource(f"the workspace has no datastore {name}") from None
    container = store.get("containerName") or store.get("filesystem")
    if not container:
        what = f"the datastore {name} is {store.get('datastoreType')}, which holds no blobs"
        raise ConfigError(what, None, "name one of the type AzureBlob")
    host = f"{store['accountName']}.blob.{store.get('endpoint') or 'core.windows.net'}"
    url = f"{store.get('protocol') or 'https'}://{host}/{container}"

    def secret() -> dict[str, Any]:
        return client.post(path + "/listSecrets", {"expirableSecret": True}) or {}

    if (store.get("credentials") or {}).get("credentialsType") == "None":
        return Container(url, credential)
    try:
        found = secret()
    except SubmitRejected:
        if credential is None:
            raise
        return Container(url, credential)
    if found.get("sasToken"):
        return Container(url, str(found["sasToken"]).lstrip("?"), lambda: str(secret().get("sasToken")).lstrip("?"))
    return Container(url, found.get("key") or credential)
