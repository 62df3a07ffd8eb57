"""The prefix of a recipe, and what the nodes of a compute were found to have."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from worldsize.common.atomic_files import read_json, write_json
from worldsize.environment.recipe import Recipe
from worldsize.errors import WorldsizeError
from worldsize.trust.directories import is_reliable_directory, make_private_directory
from worldsize.wings.environments.workspace.prefixes import prefix_path, read_description


def find_prefix(directory: str, recipe: Recipe) -> str:
    """The prefix of this fingerprint, whatever it was called when it was built; of a lock, also the one that it was
    made from."""
    lock = recipe.lock
    if lock:
        named, digest = lock.get("prefix"), lock.get("digest")
        made_from = [str(named)] if named else _prefixes_of_fingerprint(directory, str(lock.get("fingerprint")))
        for prefix in made_from if digest else ():  # a directory that is no environment has none, either
            if _digest(prefix) == digest and is_reliable_directory(prefix):
                return prefix
    path = prefix_path(directory, _label(recipe), recipe.fingerprint)
    if os.path.isdir(path):
        return path
    return next(iter(_prefixes_of_fingerprint(directory, recipe.fingerprint)), path)


def _prefixes_of_fingerprint(directory: str, fingerprint: str) -> list[str]:
    """Directories of that fingerprint, under any name."""
    end = "-" + fingerprint[:16]
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(end)]
    except OSError:
        return []


def _digest(prefix: str) -> str | None:
    try:
        found = read_description(prefix)
    except WorldsizeError:
        return None
    return found.get("digest") if found else None


def _label(recipe: Recipe) -> str:
    spec, lock = recipe.spec, recipe.lock
    if spec.name or (lock and lock.get("name")):
        return spec.name or str(lock and lock["name"])
    if recipe.existing:
        return os.path.basename(recipe.existing.prefix)
    if spec.file:
        return os.path.basename(os.path.dirname(spec.file))
    if recipe.is_conda:
        return "conda"
    return "pip" if spec.pip or (lock and lock["pip"]) else "env"


def read_probe(home: str, compute: str) -> tuple[str, ...]:
    """The virtual packages that a node of the compute was found to have; empty where nobody has looked, or where
    somebody else could have written the answer."""
    if not is_reliable_directory(os.path.dirname(_probe_file(home, compute))):
        return ()
    try:
        value = read_json(_probe_file(home, compute)) or {}
    except (OSError, ValueError):
        return ()
    return tuple(value.get("virtual_packages", ()))


def write_probe(home: str, compute: str, virtual: Sequence[str], node: str) -> None:
    """Raises StorageError where somebody else could replace the file; OSError."""
    path = _probe_file(home, compute)
    make_private_directory(os.path.dirname(path), follow=True)
    write_json(path, {"virtual_packages": list(virtual), "node": node, "time": time.time()})


def _probe_file(home: str, compute: str) -> str:
    return os.path.join(home, "probed", compute + ".json")
