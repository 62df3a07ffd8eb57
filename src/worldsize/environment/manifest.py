"""The manifest of a snapshot, `code.json`: what the code of a run was, and how two runs' code differs.

`{"version": 1, "digest": …, "files": {path: [kind, size, digest]}}`; kind is "file", "exec" or "link", and a link's
digest is its target.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.environment.objects import digest_of
from worldsize.errors import NotFound
from worldsize.plan.files import display, write_json
from worldsize.plan.shape import read_record, require_version
from worldsize.plan.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MANIFEST_VERSION = 1
Files = Mapping[str, tuple[str, int, str]]


class TreeDiff(NamedTuple):
    """Paths, sorted; `changed` in content, kind or target."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def tree_digest(files: Files) -> str:
    """One name for the whole tree, whatever the order: every path, kind and content counts, sizes follow."""
    entries = ["%s\0%s\0%s" % (path, kind, digest) for path, (kind, _, digest) in sorted(files.items())]
    return digest_of(os.fsencode("\0\0".join(entries)))


def write_manifest(path: str, files: Files) -> str:
    """Writes it sorted; returns the tree's digest."""
    files = dict(sorted(files.items()))
    digest = tree_digest(files)
    write_json(path, {"version": MANIFEST_VERSION, "digest": digest, "files": files})
    return digest


def read_manifest(path: str) -> dict[str, Any]:
    """Raises NotFound where there is none; Damaged, Newer, OSError."""
    manifest = read_record(path, _manifest)
    if manifest is None:
        raise NotFound("no manifest of the code", display(path), "only runs with a snapshot can be compared")
    return manifest


def _manifest(value: Any) -> dict[str, Any]:
    require_version(value, MANIFEST_VERSION, "manifest of the code")
    if not isinstance(value["files"], dict) or not all(isinstance(each, list) for each in value["files"].values()):
        raise ValueError("it is no manifest of the code")
    return dict(value)


def diff_trees(old: Mapping[str, Any], new: Mapping[str, Any]) -> TreeDiff:
    """What changed from one manifest to the other."""
    before, after = old["files"], new["files"]
    return TreeDiff(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(before.keys() - after.keys())),
        tuple(sorted(path for path in before.keys() & after.keys() if list(before[path]) != list(after[path]))),
    )
