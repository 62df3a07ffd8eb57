"""Built environments on disk. Each is one directory, which is valid once it contains its description.

torch-0123456789abcdef/                             built in its final place: conda packages hold their path
torch-0123456789abcdef/worldsize-environment.json   written last, by a rename
torch-0123456789abcdef.lock, .log                   its builder; the output of the tools
.trash-…                                            a directory that is being removed
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.common.atomic_files import read_json, storage_error, write_json
from worldsize.common.file_lock import is_held, read_note
from worldsize.common.json_values import require_version
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.environment.existing import DESCRIPTION
from worldsize.errors import NewerFormat, WorldsizeError
from worldsize.trust.directories import is_reliable_directory
from worldsize.trust.trees import remove_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.environments.lookup import Recipe

DESCRIPTION_VERSION = 1
_TRASH = ".trash-"
_NAME = r"(.+)-([0-9a-f]{16})"
_UNFIT = r"[^A-Za-z0-9_.]+"
_LONGEST = 40


class PrefixEntry(NamedTuple):
    """An environment in `envs_dir`. `state` is "ready", "building", or "broken" (incomplete, and no process is building
    it). `description` is that of a ready one, `note` is the builder's."""

    path: str
    state: str
    description: dict[str, Any] | None = None
    note: Mapping[str, Any] = {}

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    @property
    def label(self) -> str:
        named = re.fullmatch(_NAME, self.name)
        return named[1] if named else self.name


def prefix_path(envs_dir: str, label: str, fingerprint: str) -> str:
    """Return the directory in `envs_dir` at which the environment with `label` and `fingerprint` is built. No other
    environment uses it."""
    fit = re.sub(_UNFIT, "-", label).strip("-.")[:_LONGEST] or "env"
    return os.path.join(envs_dir, f"{fit}-{fingerprint[:16]}")


def find_prefix(directory: str, recipe: Recipe) -> str:
    """Return the directory of the environment that was built from the recipe's fingerprint, under any name that it had.
    For a lock, also search the prefix that the lock was made from. If there is none, return the path to build it at."""
    lock = recipe.lock
    if lock:
        named, digest = lock.get("prefix"), lock.get("digest")
        made_from = [str(named)] if named else _prefixes_of_fingerprint(directory, str(lock.get("fingerprint")))
        for prefix in made_from if digest else ():  # a directory that is no environment has no digest, either
            if (entry(prefix).description or {}).get("digest") == digest and is_reliable_directory(prefix):
                return prefix
    path = prefix_path(directory, _label(recipe), recipe.fingerprint)
    if os.path.isdir(path):
        return path
    return next(iter(_prefixes_of_fingerprint(directory, recipe.fingerprint)), path)


def _prefixes_of_fingerprint(directory: str, fingerprint: str) -> list[str]:
    """Return the directories of built environments with that fingerprint, under any name. Empty if `directory` is
    missing or cannot be read."""
    end = "-" + fingerprint[:16]
    try:
        return [os.path.join(directory, name) for name in os.listdir(directory) if name.endswith(end)]
    except OSError:
        return []


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


def lock_path(prefix: str) -> str:
    return prefix + ".lock"


def log_path(prefix: str) -> str:
    return prefix + ".log"


def is_ready(prefix: str) -> bool:
    return os.path.isfile(os.path.join(prefix, DESCRIPTION))


def read_description(prefix: str) -> dict[str, Any] | None:
    """Return the description of the environment in `prefix`. None if it is missing or incomplete. Raise WorldsizeError
    for a description of a newer worldsize, or a damaged one."""
    path = os.path.join(prefix, DESCRIPTION)
    try:
        value = read_json(path)
    except NotADirectoryError:
        return None
    except ValueError:
        value = {}
    except OSError as error:
        raise storage_error(error, path) from None
    if value is None:
        return None
    hint = f"worldsize env remove {os.path.basename(prefix)} rebuilds it at its next use"
    try:
        require_version(value, DESCRIPTION_VERSION, "description of an environment")
    except NewerFormat as error:
        raise NewerFormat(error.what, path, f"{error.hint}; {hint}") from None
    except ValueError:
        raise WorldsizeError("this worldsize cannot read its description", path, hint) from None
    return dict(value)


def write_description(prefix: str, description: dict[str, Any]) -> None:
    """Write the description of the environment in `prefix`, which makes the environment valid. Raise OSError."""
    write_json(os.path.join(prefix, DESCRIPTION), {**description, "version": DESCRIPTION_VERSION})


def touch(prefix: str) -> None:
    """Set the time at which the environment in `prefix` was last used to now. Do nothing for an environment of another
    user."""
    try:
        os.utime(os.path.join(prefix, DESCRIPTION))
    except OSError:
        pass  # another user's


def last_use_time(prefix: str) -> float:
    """Return the time of the last use of an environment, in Unix seconds. For an incomplete one, return the time of its
    last change; 0.0 if it cannot be accessed."""
    for path in (os.path.join(prefix, DESCRIPTION), prefix):
        try:
            return os.stat(path).st_mtime
        except OSError:
            continue
    return 0.0


def entries(envs_dir: str) -> list[PrefixEntry]:
    """Return an entry for each environment in the directory `envs_dir`, complete or not, sorted by name. Raise
    StorageError."""
    try:
        names = sorted(name for name in os.listdir(envs_dir) if re.fullmatch(_NAME, name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(error, envs_dir) from None
    return [entry(os.path.join(envs_dir, name)) for name in names]


def entry(prefix: str) -> PrefixEntry:
    try:
        description = read_description(prefix)
    except WorldsizeError:
        return PrefixEntry(prefix, "broken")
    if description is not None:
        return PrefixEntry(prefix, "ready", description)
    if is_held(lock_path(prefix)):
        return PrefixEntry(prefix, "building", None, read_note(lock_path(prefix)))
    return PrefixEntry(prefix, "broken")


def discard(prefix: str) -> None:
    """Remove the environment in `prefix`, complete or not. Other processes see either all of it or nothing. Its lock
    must be held. Raise OSError."""
    try:
        os.unlink(os.path.join(prefix, DESCRIPTION))
    except (FileNotFoundError, NotADirectoryError):
        pass
    trash = os.path.join(os.path.dirname(prefix), _TRASH + os.urandom(6).hex())
    try:
        os.rename(prefix, trash)
    except FileNotFoundError:
        return
    remove_tree(trash)


def empty_trash(envs_dir: str) -> None:
    """Remove the directories in `envs_dir` that interrupted removals of environments have left. Do nothing if
    `envs_dir` cannot be read. Raise OSError."""
    try:
        names = os.listdir(envs_dir)
    except OSError:
        return
    for name in names:
        if name.startswith(_TRASH):
            remove_tree(os.path.join(envs_dir, name))
