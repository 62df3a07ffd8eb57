"""Repositories of the Hugging Face hub, stored in the layout of its own library, which can then read them without a
network.

    hub/models--OWNER--NAME/blobs/ETAG               contents, by the hub's own checksum
    hub/models--OWNER--NAME/snapshots/COMMIT/FILE    links to them
    hub/models--OWNER--NAME/refs/main                the commit that a name refers to

This directory contains only the contents; the links and refs that a job sees are created for each stage.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from worldsize.common.atomic_files import read_json, write_json
from worldsize.errors import UsageError, WorldsizeError
from worldsize.store.content_store import file_digest
from worldsize.trust.directories import make_directories
from worldsize.wings.staging.fetch import DataStore
from worldsize.wings.staging.http import display_url, download, read
from worldsize.wings.staging.spec import HubRepo

_ENDPOINT = "https://huggingface.co"
_LISTING = 64 << 20
_CHECKSUM = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")


class Blob(NamedTuple):
    """The content of a file. `name` is the one that the hub's library uses: the sha256 of large files, git's sha1 of
    others."""

    name: str
    size: int


class HubSnapshot(NamedTuple):
    """A commit of a repository. `files` contains the requested files."""

    repo: HubRepo
    commit: str
    files: Mapping[str, Blob]

    @property
    def folder(self) -> str:
        """The name of the repository's directory in the hub's library."""
        return "--".join((self.repo.kind, *self.repo.name.split("/")))

    def blob(self, directory: str, name: str) -> str:
        return os.path.join(directory, "hub", self.folder, "blobs", self.files[name].name)


class Hub:
    """The hub that `environ` names. It is read with the credentials that its library would use."""

    def __init__(self, directory: str, data: DataStore, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._data = data
        self._endpoint = (environ.get("HF_ENDPOINT") or _ENDPOINT).rstrip("/")
        token = _token(environ)
        self._headers = {"Authorization": "Bearer " + token} if token else {}

    def fetch(self, repo: HubRepo) -> HubSnapshot:
        """Fetch the requested files of a Hugging Face repository that are not stored yet, and return its HubSnapshot.
        If the hub cannot be reached, use the files that were fetched before, with a notice. Raise UsageError,
        WorldsizeError, OSError."""
        snapshot = self._query_snapshot(repo)
        total = sum(blob.size for blob in snapshot.files.values())
        missing = [name for name in snapshot.files if not os.path.exists(snapshot.blob(self._directory, name))]
        if missing:
            self._data.report_notice(f"huggingface: fetching {repo.name} ({len(missing)} files)")
        done = total - sum(snapshot.files[name].size for name in missing)
        for name in missing:
            self._fetch_file(snapshot, name, self._make_tick(repo.name, done, total))
            done += snapshot.files[name].size
        write_json(self._state_path(repo), [snapshot.commit, snapshot.files])
        return snapshot

    def _make_tick(self, name: str, before: int, total: int) -> Callable[[int, int], None]:
        return lambda done, _: self._data.report_transfer(name, before + done, total)

    def _query_snapshot(self, repo: HubRepo) -> HubSnapshot:
        where = "{}/api/{}/{}/revision/{}?blobs=true".format(
            self._endpoint, repo.kind, repo.name, quote(repo.revision, safe="")
        )  # fmt: skip
        try:
            value: dict[str, Any] = json.loads(read(where, _LISTING, self._headers))
            files = {each["rfilename"]: _parse_blob(each) for each in value["siblings"]}
            commit = _parse_checksum(value["sha"])
        except UsageError as error:
            raise UsageError(error.what, display_url(where), _hint(error.what, repo)) from None
        except WorldsizeError as error:
            return self._read_known_snapshot(repo, error)
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                "is not an answer of a Hugging Face hub", display_url(where), "correct HF_ENDPOINT"
            ) from None
        wanted = {name: blob for name, blob in files.items() if _is_match(name, repo.patterns)}
        for name in wanted:
            if os.path.isabs(name) or ".." in name.split("/"):
                raise UsageError(f"contains a file whose name leads outside it: {name}", display_url(where))
        if not wanted:
            raise UsageError(f"no file of {repo.name} matches {' '.join(repo.patterns)}", "stage.huggingface")
        return HubSnapshot(repo, commit, wanted)

    def _read_known_snapshot(self, repo: HubRepo, error: WorldsizeError) -> HubSnapshot:
        try:
            known = read_json(self._state_path(repo))
        except ValueError:
            known = None
        if not known:
            raise error
        snapshot = HubSnapshot(repo, known[0], {name: Blob(*blob) for name, blob in known[1].items()})
        if any(not os.path.exists(snapshot.blob(self._directory, name)) for name in snapshot.files):
            raise error
        self._data.report_notice(f"huggingface: {error.what}; commit {snapshot.commit[:12]} of {repo.name} is used")
        return snapshot

    def _fetch_file(self, snapshot: HubSnapshot, name: str, tick: Callable[[int, int], None]) -> None:
        repo, blob = snapshot.repo, snapshot.files[name]
        kind = "" if repo.kind == "models" else repo.kind + "/"
        url = f"{self._endpoint}/{kind}{repo.name}/resolve/{snapshot.commit}/{quote(name)}"
        path = snapshot.blob(self._directory, name)
        make_directories(os.path.dirname(path))
        with self._data.hold_lock(path, name):
            if os.path.exists(path):
                return
            part = path + ".part"
            download(url, part, None, tick, self._headers)
            if _checksum(part, blob.name) != blob.name:
                os.unlink(part)
                raise UsageError(f"differs from the hub's checksum ({blob.name})", display_url(url), "try again")
            os.chmod(part, 0o444)
            os.rename(part, path)
        os.unlink(path + ".lock")

    def _state_path(self, repo: HubRepo) -> str:
        key = hashlib.sha256(repr((self._endpoint, repo)).encode()).hexdigest()[:32]
        directory = os.path.join(self._directory, "hub")
        make_directories(directory)
        return os.path.join(directory, key + ".json")


def _parse_blob(sibling: dict[str, Any]) -> Blob:
    """Parse `sibling`, a file's entry in the hub's list of a repository's files, and return its Blob. Raise ValueError
    if the blob's name is no checksum, since it becomes a file's name."""
    large = sibling.get("lfs")
    name, size = (large["sha256"], large["size"]) if large else (sibling["blobId"], sibling.get("size"))
    return Blob(_parse_checksum(name), int(size or 0))


def _parse_checksum(name: object) -> str:
    if not isinstance(name, str) or not _CHECKSUM.fullmatch(name):
        raise ValueError(f"is not a checksum: {name!r:.80}")
    return name


def _is_match(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _checksum(path: str, name: str) -> str:
    """Compute the checksum of the file `path`, of the same kind as the blob's name `name`: sha256 of the content, or
    git's sha1 of a blob."""
    if len(name) == 64:
        return file_digest(path)
    return file_digest(path, digest=hashlib.sha1(b"blob %d\0" % os.path.getsize(path), usedforsecurity=False))


def _hint(what: str, repo: HubRepo) -> str | None:
    if what.startswith(("401", "403")):
        return "it is private or gated, or does not exist: huggingface-cli login, or set HF_TOKEN"
    return f"is there a {repo.name}, and a revision {repo.revision}?" if what.startswith("404") else None


def _token(environ: Mapping[str, str]) -> str:
    """Return the access token that the Hugging Face library would use with `environ`; "" if there is none, or its file
    cannot be read."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environ.get(name):
            return environ[name].strip()
    home = environ.get("HF_HOME") or os.path.join(environ.get("HOME", ""), ".cache", "huggingface")
    try:
        with open(environ.get("HF_TOKEN_PATH") or os.path.join(home, "token"), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
