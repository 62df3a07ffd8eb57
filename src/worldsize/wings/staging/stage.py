"""The staging directory of a job: one for each content, which is never changed after its creation.

DIRECTORY/stage/KEY/huggingface/hub/…    in the layout of the libraries; links to the stored contents
DIRECTORY/stage/KEY/torch/hub/…
DIRECTORY/stage/KEY/wheels
DIRECTORY/stage/KEY/data/…
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from worldsize.common.atomic_files import storage_error, write_json
from worldsize.errors import UsageError
from worldsize.plan.node_disk import DIRECTORY_MARK
from worldsize.registry import load_module
from worldsize.service.request import StagingDirectory
from worldsize.service.submission.staged import OFFLINE
from worldsize.store.content_store import file_digest
from worldsize.trust.directories import make_directories
from worldsize.wings.staging.fetch import DataStore, file_name
from worldsize.wings.staging.http import read
from worldsize.wings.staging.huggingface import Hub, HubSnapshot
from worldsize.wings.staging.spec import StagingSpec, TorchRepo

_GITHUB = "https://github.com"
_HASH = re.compile(r"-([0-9a-f]{8,64})\.[^.]+$")


class _StagingPart(NamedTuple):
    """The contribution of one part of `stage:`: links and texts of files, by their paths in the stage, and entries of
    the record."""

    links: dict[str, str]
    texts: dict[str, str]
    record: dict[str, Any]


def make_staging_directory(
    stage: StagingSpec,
    directory: str,
    data: DataStore,
    python: str,
    environ: Mapping[str, str],
    programs: Mapping[str, str],
    secrets: Collection[str] = (),
) -> StagingDirectory:
    """Fetch and check everything that a job's `stage:` section names, and create its directory below `directory`.
    Return the StagingDirectory with the path and the ranks' variables. `programs` contains the environment variables
    for programs that are started; `secrets` are masked in their messages. Raise UsageError and WorldsizeError, which
    name what cannot be fetched."""
    try:
        parts = [
            *_fetch_hub(stage, directory, data, environ),
            *_fetch_torch(stage, data, environ),
            *_fetch_data(stage, data),
        ]
        if stage.wheels:
            pip = load_module("wings.environments.pip.wheels", "`stage.pip`")
            parts.append(_wheel_links(pip.make_wheels(stage.wheels, python, directory, data, programs, secrets)))
        links = {name: path for part in parts for name, path in part.links.items()}
        texts = {name: text for part in parts for name, text in part.texts.items()}
        contents = {name: said for part in parts for name, said in part.record.items()}
        key = hashlib.sha256(json.dumps([links, texts, contents], sort_keys=True).encode()).hexdigest()[:32]
        path = os.path.join(directory, "stage", key)
        data.make(path, lambda part: write_staging_directory(part, path, links, texts, contents), "stage")
    except OSError as error:
        raise storage_error(error, error.filename or directory) from None
    return StagingDirectory(path, _variables(stage, path), contents)


def write_staging_directory(
    part: str, path: str, links: dict[str, str], texts: dict[str, str], contents: dict[str, Any]
) -> None:
    """Write a staging directory to `part`, which is later renamed to `path`: symbolic links (name to target), files
    (name to text), and `contents` as the record stage.json. Links are relative, since the nodes may see the directory
    under another name."""
    for name, target in links.items():
        place = _make_place(part, name)
        os.symlink(os.path.relpath(target, os.path.dirname(os.path.join(path, name))), place)
    for name, text in texts.items():
        place = _make_place(part, name)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(place, 0o444)
    write_json(os.path.join(part, "stage.json"), contents)


def _make_place(part: str, name: str) -> str:
    """Create the parent directory of the file or link `name` in the staging directory `part`, and return the path of
    the file or link. Raise UsageError if the name leads out of the directory: it comes from a job or a server, and is
    checked here in any case."""
    if not name or os.path.isabs(name) or ".." in name.split("/"):
        raise UsageError(f"a name leads outside the staged data: {name!r:.80}", "stage")
    place = os.path.join(part, name)
    make_directories(os.path.dirname(place))
    return place


def _variables(stage: StagingSpec, path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    if stage.hub:
        home = os.path.join(path, "huggingface")
        found.update(OFFLINE, HF_HOME=home, HF_HUB_CACHE=os.path.join(home, "hub"))
        found.update(HUGGINGFACE_HUB_CACHE=found["HF_HUB_CACHE"])
        for name in ("datasets", "modules", "assets"):  # the libraries write to these
            found[f"HF_{name.upper()}_CACHE"] = os.path.join(DIRECTORY_MARK, "huggingface", name)
    if stage.torch or stage.checkpoints:
        found["TORCH_HOME"] = os.path.join(path, "torch")
    if stage.wheels:
        wheels = os.path.join(path, "wheels")
        found.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels, UV_OFFLINE="1", UV_NO_INDEX="1", UV_FIND_LINKS=wheels)
    if stage.data:
        found["WORLDSIZE_DATA"] = os.path.join(path, "data")
    return found


def _fetch_hub(stage: StagingSpec, directory: str, data: DataStore, environ: Mapping[str, str]) -> list[_StagingPart]:
    hub = Hub(directory, data, environ)
    return [_snapshot_links(hub.fetch(repo), directory) for repo in stage.hub]


def _snapshot_links(found: HubSnapshot, directory: str) -> _StagingPart:
    place = f"huggingface/hub/{found.folder}/"
    links = {f"{place}snapshots/{found.commit}/{name}": found.blob(directory, name) for name in found.files}
    refs = {} if found.repo.revision == found.commit else {place + "refs/" + found.repo.revision: found.commit}
    said = {
        "{}/{}@{}".format(*found.repo[:3]): {
            "commit": found.commit,
            "files": {n: b.name for n, b in found.files.items()},
        }
    }
    return _StagingPart(links, refs, said)


def _fetch_torch(stage: StagingSpec, data: DataStore, environ: Mapping[str, str]) -> list[_StagingPart]:
    found = []
    trusted = []
    for repo in stage.torch:
        ref = repo.ref or _default_branch(repo, environ)
        url = f"{_github_url(environ)}/{repo.owner}/{repo.name}/zipball/{ref}"
        archive = data.fetch(url, what="torch_hub: {}/{}".format(*repo[:2]))
        folder = data.unpack(archive, repo.name + ".zip", repo.name).path
        tops = os.listdir(folder)
        if len(tops) != 1:
            what = f"not an archive of a repository: it has {len(tops)} directories instead of one"
            raise UsageError(what, archive.uri, "does the repository exist, and its branch?")
        name = f"{repo.owner}_{repo.name}_{ref.replace('/', '_')}"
        said = {f"{repo.owner}/{repo.name}:{ref}": {"url": archive.uri, "sha256": archive.sha256}}
        found.append(_StagingPart({"torch/hub/" + name: os.path.join(folder, tops[0])}, {}, said))
        trusted.append("{}_{}".format(*repo[:2]))
    if trusted:
        found.append(_StagingPart({}, {"torch/hub/trusted_list": "\n".join(trusted) + "\n"}, {}))
    return found + [_fetch_checkpoint(url, data) for url in stage.checkpoints]


def _fetch_checkpoint(url: str, data: DataStore) -> _StagingPart:
    """Fetch the torch.hub checkpoint at `url` into the store of downloads, and return the links by which it appears in
    the staging directory. If its name ends in the beginning of a checksum, as torch names checkpoints, raise UsageError
    if its checksum differs."""
    fetched = data.fetch(url, what=f"torch_hub: {file_name(url)}")
    named = _HASH.search(file_name(url))
    if named and not (fetched.sha256 or "").startswith(named[1]):
        what = f"its sha256 is {fetched.sha256}, and does not begin like its name"
        raise UsageError(what, fetched.uri, "it was changed in transit, or is another file")
    said = {fetched.uri: {"sha256": fetched.sha256}}
    return _StagingPart({"torch/hub/checkpoints/" + file_name(url): fetched.path}, {}, said)


def _default_branch(repo: TorchRepo, environ: Mapping[str, str]) -> str:
    """Return the default branch of a GitHub repository of torch.hub, found as torch.hub does: "main" if it exists, else
    "master"."""
    try:
        read(f"{_github_url(environ)}/{repo.owner}/{repo.name}/tree/main/", 64 << 20)
    except UsageError:
        return "master"
    return "main"


def _github_url(environ: Mapping[str, str]) -> str:
    return (environ.get("GITHUB_SERVER_URL") or _GITHUB).rstrip("/")


def _fetch_data(stage: StagingSpec, data: DataStore) -> list[_StagingPart]:
    found = []
    for each in stage.data:
        fetched = data.fetch(each.uri, sha256=each.sha256, what=f"data: {each.path}")
        said = {"data/" + each.path: {"uri": fetched.uri, "sha256": fetched.sha256}}
        found.append(_StagingPart({"data/" + each.path: fetched.path}, {}, said))
    return found


def _wheel_links(path: str) -> _StagingPart:
    said = {name: {"sha256": file_digest(os.path.join(path, name))} for name in sorted(os.listdir(path))}
    return _StagingPart({"wheels": path}, {}, {"wheels": said})
