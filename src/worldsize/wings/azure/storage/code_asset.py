"""The code of a job as an asset of the workspace, named by its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.common.atomic_files import printable_text
from worldsize.errors import JobError
from worldsize.wings.azure.storage.assets import AssetClient, ensure_version
from worldsize.wings.azure.storage.blobs import Container, Notice, Progress, no_notice, no_progress
from worldsize.wings.azure.storage.content import Content, folder_content

_FOLDER = "code"


def upload_code(
    client: AssetClient,
    folder: str,
    credential: Any = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> str:
    """Return the id of the asset with what is in `folder`, uploaded where the workspace has none of this content. It is
    registered last, so that one that is there is whole.

    credential  of azure-identity, for a workspace whose storage gives no signatures
    progress    called with the bytes that are there, and those that there will be
    notice      called with what is left out

    JobError for a folder without files; SnapshotError where one cannot be read; else as the client, and the storage.
    """
    content = folder_content(folder)
    if not content.files:
        raise JobError(f"{printable_text(folder)} has no file", "code", "name the directory of the code")
    for text in content.left_out:
        notice(text)
    path = f"/codes/worldsize-{content.digest}/versions/1"
    return ensure_version(client, path, lambda: _upload(client, path, content, credential, progress))


def _upload(
    client: AssetClient, path: str, content: Content, credential: Any, progress: Progress
) -> Mapping[str, object]:
    """Return the properties of an asset whose files are in a container that the workspace has made for them."""
    asked = client.post(path + "/startPendingUpload", {"pendingUploadType": "TemporaryBlobReference"}) or {}
    reference = asked["blobReferenceForConsumption"]
    url = str(reference["blobUri"]).rstrip("/")
    signed = (reference.get("credential") or {}).get("sasUri") or ""
    with Container(url, str(signed).partition("?")[2] or credential) as container:
        container.upload(content.files, _FOLDER, progress, new=True)
    return {"codeUri": f"{url}/{_FOLDER}", "isAnonymous": True}
