"""The `stage:` section of a job, and its reader: what is downloaded before the job is submitted, so that nodes without
a network find it. Pure functions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.paths import absolute_path, is_malformed
from worldsize.jobspec.reading.environment import ENVIRONMENT_READERS
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import mapping_of, read_keys

_REPO = r"(?:(?P<kind>models|datasets|spaces)/)?(?P<name>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w./-]+))?"
_TORCH = r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?::(?P<ref>[\w./-]+))?"
_CHECKSUM = r"#sha256=([0-9A-Fa-f]{64})$"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

KEYS: Keys = {
    "pip": Key("requirements", "Requirements, or a file of them, that ranks may `pip install`: wheels.", blank=False),
    "uv": Key("requirements", "The same for `uv pip install`; the wheels are shared.", blank=False),
    "huggingface": Key("texts", "Repositories of the Hugging Face hub: NAME, NAME@REVISION, datasets/NAME; then "
                                "patterns of files.", blank=False),
    "torch_hub": Key("texts", "Repositories of torch.hub, OWNER/NAME:REF, and URLs of checkpoints.", blank=False),
    "data": Key("text_map", "Paths below $WORLDSIZE_DATA to URIs; #sha256=… at a URI's end is checked.", blank=False),
}  # fmt: skip


class HubRepo(NamedTuple):
    """A repository of the Hugging Face hub. `kind` is "models", "datasets" or "spaces". Without patterns, all its files
    are meant."""

    kind: str
    name: str
    revision: str
    patterns: tuple[str, ...] = ()


class TorchRepo(NamedTuple):
    """A repository of torch.hub. Without a `ref`, the branch that torch chooses is meant: main, else master."""

    owner: str
    name: str
    ref: str | None


class StagedData(NamedTuple):
    """A file that ranks find as `path` below $WORLDSIZE_DATA."""

    path: str
    uri: str
    sha256: str | None


class StagingSpec(NamedTuple):
    """The data that a job stages. `wheels` are lines of a requirements file; `checkpoints` are URLs."""

    wheels: tuple[str, ...] = ()
    hub: tuple[HubRepo, ...] = ()
    torch: tuple[TorchRepo, ...] = ()
    checkpoints: tuple[str, ...] = ()
    data: tuple[StagedData, ...] = ()


def staging_spec_of(values: Mapping[str, Any]) -> StagingSpec:
    """Return the StagingSpec that `values`, the keys of a job's `stage:` section, describe. Raise ValueError, with a
    message of the form "key: problem", if they are not valid."""
    torch = [_torch(text) for text in values.get("torch_hub", ())]
    return StagingSpec(
        tuple(dict.fromkeys((*values.get("pip", ()), *values.get("uv", ())))),
        tuple(_hub(text) for text in values.get("huggingface", ())),
        tuple(each for each in torch if isinstance(each, TorchRepo)),
        tuple(each for each in torch if isinstance(each, str)),
        tuple(_data(path, uri) for path, uri in values.get("data", {}).items()),
    )


def _hub(text: str) -> HubRepo:
    first, *patterns = text.split()
    found = re.fullmatch(_REPO, first)
    if found is None:
        raise ValueError(
            f"huggingface: {first!r:.80} is not a repository: write NAME, OWNER/NAME or datasets/OWNER/NAME"
        )
    _check_plain("huggingface", first, found["name"], found["revision"])
    return HubRepo(found["kind"] or "models", found["name"], found["revision"] or "main", tuple(patterns))


def _torch(text: str) -> TorchRepo | str:
    if text.startswith(("https://", "http://")):
        return text
    found = re.fullmatch(_TORCH, text)
    if found is None:
        raise ValueError(f"torch_hub: {text!r:.80} is neither OWNER/NAME:REF nor a URL")
    _check_plain("torch_hub", text, f"{found['owner']}/{found['name']}", found["ref"])
    return TorchRepo(found["owner"], found["name"], found["ref"])


def _check_plain(key: str, text: str, name: str, revision: str | None) -> None:
    """Raise ValueError if a part of a repository's `name`, or of its `revision`, is "..", "." or "": both become names
    of files, and parts of addresses. `key` and `text` are for the message."""
    if {"", ".", ".."}.intersection(name.split("/")):
        raise ValueError(f"{key}: {text!r:.80} is not a repository: .. or . is not a name of one")
    if revision is not None and {"", ".", ".."}.intersection(revision.split("/")):
        raise ValueError(f"{key}: {revision!r:.80} is not a revision's name: no part of it may be .. or . or empty")


def _data(path: str, uri: str) -> StagedData:
    normal = os.path.normpath(path)
    if os.path.isabs(path) or normal.split("/")[0] == ".." or normal == "." or _CONTROL.search(path):
        raise ValueError(f"data: {path!r:.80} is not a relative path")
    checksum = re.search(_CHECKSUM, uri)
    plain = uri[: checksum.start()] if checksum else uri
    if "#sha256" in plain:
        raise ValueError(f"data.{path}: #sha256= needs 64 hexadecimal digits")
    return StagedData(os.path.normpath(path), plain, checksum[1].lower() if checksum else None)


def read(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any] | None:
    count = len(report.problems)
    values = read_keys(mapping_of(node, path, report), path, KEYS, report, ENVIRONMENT_READERS)
    if len(report.problems) > count:
        return None
    if "data" in values:
        for name in filter(lambda name: is_malformed(values["data"][name]), values["data"]):
            report.add(node, f"{path}.data.{name}", "is not a readable address")
            return None
        values["data"] = {name: absolute_path(uri, report.base) for name, uri in values["data"].items()}
    try:
        staging_spec_of(values)
    except ValueError as error:
        report.add(node, path, str(error))
        return None
    return values
