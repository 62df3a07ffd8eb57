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
    """Return the id of the workspace's code asset with the content of `folder`, which is uploaded if the workspace has
    none with this content. It is registered last, so that an existing asset is complete.

    credential  of azure-identity, for a workspace whose storage issues no signatures
    progress    called with the number of transferred bytes and the total
    notice      called with what is left out

    Raise JobError for a folder without files, SnapshotError if one cannot be read; else the errors of the client and
    the storage.
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
    """Upload the code files in `content` to a container that the workspace makes for them. Return the properties of the
    code asset to register."""
    asked = client.post(path + "/startPendingUpload", {"pendingUploadType": "TemporaryBlobReference"}) or {}
    reference = asked["blobReferenceForConsumption"]
    url = str(reference["blobUri"]).rstrip("/")
    signed = (reference.get("credential") or {}).get("sasUri") or ""
    with Container(url, str(signed).partition("?")[2] or credential) as container:
        container.upload(content.files, _FOLDER, progress, new=True)
    return {"codeUri": f"{url}/{_FOLDER}", "isAnonymous": True}
