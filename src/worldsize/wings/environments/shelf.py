"""The environments that were built: functions that find them by name, list the runs that use them, and remove them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.config.config import Config
from worldsize.plan.array import element_root, read_array
from worldsize.plan.run_paths import RunPaths
from worldsize.service.environments.location import envs_dir
from worldsize.store.find import is_array, is_replaced, list_ids, run_paths
from worldsize.wings.environments.workspace.builder import remove_if_idle
from worldsize.wings.environments.workspace.prefixes import PrefixEntry, empty_trash, entries, last_use_time


class Removal(NamedTuple):
    """An environment that a cleanup removes, or would remove: the entry, its size on disk in bytes, and the reason."""

    entry: PrefixEntry
    bytes: int
    why: str


def envs_dirs(config: Config, compute: str | None = None) -> list[str]:
    """Return the directories in which environments are built, for one compute or for all."""
    computes = [config.compute(compute)] if compute else list(config.computes.values())
    return list(dict.fromkeys(envs_dir(config, settings) for settings in computes))


def environment_entries(config: Config, compute: str | None = None) -> list[PrefixEntry]:
    """Return an entry for every environment that was built, complete or not, the last used first. `compute` limits them
    to one compute."""
    found = [entry for directory in envs_dirs(config, compute) for entry in entries(directory)]
    return sorted(found, key=lambda entry: last_use_time(entry.path), reverse=True)


def find_entry(config: Config, name: str, compute: str | None = None) -> PrefixEntry:
    """Return the built environment that `name` identifies: by its name, a unique beginning of it, or its path. Raise
    NotFound; UsageError if there are several."""
    shelf = environment_entries(config, compute)
    path = os.path.abspath(name) if os.sep in name else None
    exact = [entry for entry in shelf if name == entry.name or path == entry.path]
    found = exact or [entry for entry in shelf if entry.label == name] or [e for e in shelf if e.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(entry.name for entry in found[:5])
        raise UsageError(f"{name!r} names {len(found)} environments: {names}", None, "give the whole name")
    from worldsize.jobspec.reading.nearest import did_you_mean

    hint = did_you_mean(name, [entry.name for entry in shelf], "there are") or "none has been built yet"
    raise NotFound(f"no environment is named {name!r:.60}", None, hint)


def runs_by_prefix(config: Config) -> dict[str, list[str]]:
    """Return a mapping from the prefix of each built environment in use to the IDs of the runs in it that have not
    ended."""
    found: dict[str, list[str]] = {}
    for run_id in list_ids(config.home):
        paths = run_paths(config.home, run_id)
        if not is_replaced(config.home, run_id) and not os.path.exists(paths.result) and _is_unfinished(paths):
            prefix = _prefix_of_run(paths)
            if prefix:
                found.setdefault(prefix, []).append(run_id)
    return found


def _is_unfinished(paths: RunPaths) -> bool:
    """Return whether a run without a recorded result has not ended. A job array has ended once all its elements have,
    even if its own result is not recorded yet. An array that cannot be read counts as unfinished."""
    if not is_array(paths):
        return True
    try:
        array = read_array(paths.root)
    except (OSError, ValueError):
        return True
    roots = (element_root(paths.root, number) for number in range(array.elements if array else 0))
    return any(not os.path.exists(RunPaths(root).result) for root in roots)


def _prefix_of_run(paths: RunPaths) -> str | None:
    prefix = read_object(paths.environment).get("prefix")
    return prefix if isinstance(prefix, str) else None


def remove(config: Config, wanted: Iterable[PrefixEntry], force: bool = False) -> None:
    """Remove the built environments `wanted`. Raise UsageError before any is removed if a run that has not ended uses
    one of them, unless `force` is set. Raise UsageError for one that is being built, after those before it have been
    removed."""
    chosen, used = list(wanted), {} if force else runs_by_prefix(config)
    for entry in chosen:
        if entry.path in used:
            what = f"{entry.name} is used by {', '.join(used[entry.path])}"
            raise UsageError(what, None, "wait for its end, or remove it with --force")
    for entry in chosen:
        if not remove_if_idle(entry.path):
            raise UsageError(f"{entry.name} is being built", None, "wait until it is built")


def remove_unused(config: Config, unused_since: float, dry_run: bool) -> list[Removal]:
    """Remove incomplete environments that no process is building, and complete ones that were last used before
    `unused_since` (Unix seconds). Environments of unfinished runs stay. Return the removed ones with their size and the
    reason. With `dry_run`, remove nothing."""
    used = runs_by_prefix(config)
    found = []
    for entry in environment_entries(config):
        if entry.state == "building" or entry.path in used:
            continue
        if entry.state == "broken":
            why = "incomplete"
        elif last_use_time(entry.path) < unused_since:
            why = "unused"
        else:
            continue
        found.append(Removal(entry, disk_size(entry.path), why))
        if not dry_run:
            remove_if_idle(entry.path)
    if not dry_run:
        for directory in envs_dirs(config):
            empty_trash(directory)
    return found


def disk_size(path: str) -> int:
    """Return the bytes on disk of the environment in `path` that no other environment and no cache shares. Files that
    are removed meanwhile do not count."""
    total = 0
    for directory, _, names in os.walk(path):
        for name in names:
            try:
                status = os.lstat(os.path.join(directory, name))
            except OSError:
                continue
            if status.st_nlink == 1:
                total += status.st_blocks * 512
    return total
