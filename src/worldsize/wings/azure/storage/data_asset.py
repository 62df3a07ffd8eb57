"""Upload of local inputs of a job to the workspace's storage, once for each content."""

from __future__ import annotations

import os
from typing import Any

from worldsize.common.atomic_files import printable_text
from worldsize.errors import JobError
from worldsize.jobspec.paths import is_remote
from worldsize.wings.azure.storage.assets import AssetClient
from worldsize.wings.azure.storage.blobs import Container, Notice, Progress, no_notice, no_progress
from worldsize.wings.azure.storage.content import Content, file_content, folder_content
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore

_PREFIX = "worldsize"


def upload_input(
    client: AssetClient,
    path: str,
    credential: Any = None,
    progress: Progress = no_progress,
    datastore: str = DEFAULT_DATASTORE,
    notice: Notice = no_notice,
) -> str:
    """Return the azureml:// URI of the local file or folder `path` in the workspace's datastore, after uploading what
    the datastore does not have yet. The URI of a folder ends in "/". A path that is already a URI is returned
    unchanged. `notice` is called with what is left out.

    Raise JobError if there is no such file, or if a folder has no files; else the errors of `upload_code`.
    """
    if is_remote(path):
        return path
    content = local_content(path, "inputs", notice)
    with open_datastore(client, datastore, credential) as container:
        place = put_content(container, content, progress)
    last = content.files[0].name if os.path.isfile(path) else ""
    return f"azureml://datastores/{datastore}/paths/{place}/{last}"


def local_content(path: str, key: str, notice: Notice = no_notice) -> Content:
    """Return the content (files and digests) of the local file or folder `path`, with at least one file, without those
    that its ignore file excludes, about which `notice` is called. Raise JobError, which names the key `key`, if the
    path does not exist or contains no file."""
    shown = printable_text(path)
    if not os.path.exists(path):
        raise JobError(f"no such file or directory: {shown}", key, "correct the path, or name a URI")
    content = folder_content(path, ignores=True) if os.path.isdir(path) else file_content(path)
    for text in content.left_out:
        notice(text)
    if not content.files:
        raise JobError(
            f"{shown} has no file, and Azure's storage holds no empty folder", key, "name a directory with files"
        )
    return content


def put_content(container: Container, content: Content, progress: Progress = no_progress) -> str:
    """Upload the files of `content` to the container, to a place that is named by their digest. Return this place, a
    path in the container."""
    place = f"{_PREFIX}/{content.digest}"
    container.upload(content.files, place, progress)
    return place
