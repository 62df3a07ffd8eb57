"""Inputs of a job that lie on this machine, in the workspace's storage, once by content."""

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
    """Return the URI of a local file or folder, uploaded as far as the datastore does not have it; that of a folder
    ends in "/". What is a URI already stays as it is. `notice` is called with what is left out.

    JobError where there is no such file, or a folder without files; else as `upload_code`.
    """
    if is_remote(path):
        return path
    content = local_content(path, "inputs", notice)
    with open_datastore(client, datastore, credential) as container:
        place = put_content(container, content, progress)
    last = content.files[0].name if os.path.isfile(path) else ""
    return f"azureml://datastores/{datastore}/paths/{place}/{last}"


def local_content(path: str, key: str, notice: Notice = no_notice) -> Content:
    """What a file or folder holds, one file at least, without what its ignore file leaves out. JobError, which names
    the key, where it holds none."""
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
    """Upload it to the place that its digest names, which is returned, a path in the container."""
    place = f"{_PREFIX}/{content.digest}"
    container.upload(content.files, place, progress)
    return place
