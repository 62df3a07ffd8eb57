"""Blobs as files below a folder: CONTAINER/NAME. What jobs write there are blobs too, without being told of."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from azureml_double.web import Refusal

_CONTAINER = re.compile(r"[a-z0-9](-?[a-z0-9]){2,62}")


class Blob(NamedTuple):
    """size in bytes; changed   seconds since 1970"""

    name: str
    path: str
    size: int
    changed: float
    metadata: Mapping[str, str]
    kind: str

    @property
    def etag(self) -> str:
        return '"0x%X"' % (hash((self.path, self.size, self.changed, tuple(self.metadata.items()))) & (2**60 - 1))


class BlobStore:
    """Its methods raise Refusal, with the service's codes, for what is not there or is no name."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.RLock()
        self._metadata: dict[tuple[str, str], dict[str, str]] = {}
        self._kinds: dict[tuple[str, str], str] = {}

    def container(self, name: str) -> str:
        """Its folder."""
        path = os.path.join(self.folder, name)
        if not _CONTAINER.fullmatch(name) or not os.path.isdir(path):
            raise Refusal(404, "ContainerNotFound", "The specified container does not exist.")
        return path

    def make_container(self, name: str) -> None:
        if not _CONTAINER.fullmatch(name):
            raise Refusal(400, "InvalidResourceName", "The specified resource name contains invalid characters.")
        try:
            os.makedirs(os.path.join(self.folder, name))
        except FileExistsError:
            raise Refusal(409, "ContainerAlreadyExists", "The specified container already exists.") from None

    def path(self, container: str, name: str) -> str:
        """The file of a blob, there or not."""
        segments = name.split("/")
        long = len(name) > 1024 or any(len(each.encode()) > 255 for each in segments)
        if long or "\0" in name or any(each in ("", ".", "..") for each in segments):
            raise Refusal(400, "InvalidResourceName", "The specified resource name contains invalid characters.")
        return os.path.join(self.container(container), *segments)

    def get(self, container: str, name: str) -> Blob:
        path = self.path(container, name)
        key = (container, name)
        with self._lock:
            is_folder = key in self._kinds and os.path.isdir(path)  # an empty blob that stands for a folder
            if not os.path.isfile(path) and not is_folder:
                raise Refusal(404, "BlobNotFound", "The specified blob does not exist.")
            found = os.stat(path)
            size = 0 if is_folder else found.st_size
            kind = self._kinds.get(key, "BlockBlob")
            return Blob(name, path, size, found.st_mtime, dict(self._metadata.get(key, {})), kind)

    def put(
        self, container: str, name: str, content: bytes, metadata: Mapping[str, str], kind: str, new: bool = False
    ) -> Blob:
        """`new`: refuse one that is there."""
        path = self.path(container, name)
        with self._lock:
            if new and os.path.exists(path):
                raise Refusal(409, "BlobAlreadyExists", "The specified blob already exists.")
            if not (os.path.isdir(path) and not content):
                self._write(path, content)
            self._metadata[container, name] = dict(metadata)
            self._kinds[container, name] = kind
            return self.get(container, name)

    def _write(self, path: str, content: bytes) -> None:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path + ".writing", "wb") as file:
                file.write(content)
            os.replace(path + ".writing", path)
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            text = "The double cannot hold a blob and a folder of one name."
            raise Refusal(409, "ResourceTypeMismatch", text) from None

    def append(self, container: str, name: str, content: bytes) -> Blob:
        with self._lock, open(self.get(container, name).path, "ab") as file:
            file.write(content)
        return self.get(container, name)

    def stage(self, container: str, name: str, block: str, content: bytes) -> None:
        """A block that belongs to no blob before it is committed."""
        path = self._block(container, name, block)
        with self._lock:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)

    def commit(self, container: str, name: str, blocks: list[str], metadata: Mapping[str, str], new: bool) -> Blob:
        paths = [self._block(container, name, block) for block in blocks]
        with self._lock:
            if not all(os.path.exists(path) for path in paths):
                raise Refusal(400, "InvalidBlockList", "The specified block list is invalid.")
            content = b""
            for path in paths:
                with open(path, "rb") as file:
                    content += file.read()
            found = self.put(container, name, content, metadata, "BlockBlob", new)
            shutil.rmtree(os.path.dirname(self._block(container, name, "any")), ignore_errors=True)
            return found

    def _block(self, container: str, name: str, block: str) -> str:
        self.path(container, name)
        return os.path.join(self.folder, "Blocks", container, quote(name, "")[:200], quote(block, "")[:200])

    def set_metadata(self, container: str, name: str, metadata: Mapping[str, str]) -> Blob:
        with self._lock:
            self.get(container, name)
            self._metadata[container, name] = dict(metadata)
            return self.get(container, name)

    def delete(self, container: str, name: str) -> None:
        with self._lock:
            path = self.get(container, name).path
            self._metadata.pop((container, name), None)
            self._kinds.pop((container, name), None)
            if os.path.isfile(path):
                os.remove(path)

    def list(self, container: str, prefix: str = "") -> list[Blob]:
        """All whose names begin with the prefix, sorted by name."""
        return sorted(self._find(container, prefix), key=lambda blob: blob.name)

    def _find(self, container: str, prefix: str) -> Iterator[Blob]:
        top = self.container(container)
        start = os.path.join(top, prefix.rpartition("/")[0])
        if ".." in prefix.split("/"):
            return
        for folder, folders, files in os.walk(start):
            for each in [*files, *folders]:
                name = os.path.relpath(os.path.join(folder, each), top)
                if name.startswith(prefix) and not name.endswith(".writing"):
                    try:
                        yield self.get(container, name)
                    except (Refusal, OSError):  # a folder, or gone since
                        continue
