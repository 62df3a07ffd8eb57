"""The removal of finished runs, and of the stored code that no run uses any more."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.common.json_values import read_record
from worldsize.errors import DamagedRun, StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.state.result import status_of
from worldsize.store.find import is_replaced, list_ids, run_paths
from worldsize.store.runs import is_run_id, objects_dir, runs_link_dir
from worldsize.store.summaries import Summary, final_summary
from worldsize.trust.directories import foreign_danger, open_private_directory, require_shared_directory
from worldsize.trust.owners import is_ours
from worldsize.trust.trees import remove_tree

_PRUNED = ".pruned-"
_STALE_TEMPORARY = 3600.0
_STALE_INDEX = 30 * 86400.0
_INDEX, _TEMPORARY = "index-", "tmp-"
_OBJECT_DIRECTORY = re.compile("[0-9a-f]{2}")
_OBJECT = re.compile("[0-9a-f]{40}-(400|500)")


def prune(
    home: str,
    *,
    now: float,
    older_than: float | None = None,
    keep: int = 0,
    states: Collection[str] | None = None,
    dry_run: bool = False,
    is_kept: Callable[[RunPaths], bool] = lambda _: False,
) -> list[tuple[str, int]]:
    """Remove finished runs below `home` that the options select. Return (id, bytes that its removal frees) for each,
    newest first. With `dry_run` nothing is removed.

    older_than  seconds since the end
    keep        the number of newest runs that stay, in any state
    states      final states; None: all of them
    is_kept     called last, with each run that is about to be removed; true keeps the run

    A run without a readable result is never removed; `remove` removes any run. A run that is being removed disappears
    from the runs at once, and the next removal completes an interrupted one. Raise StorageError if a run cannot be
    removed.
    """
    pruned = []
    directories = {runs_link_dir(home)}
    for run_id in list_ids(home)[keep:]:
        paths = run_paths(home, run_id)
        if is_replaced(home, run_id):
            continue
        summary = final_summary(paths.result)
        if summary is None or not _is_selected(summary, now, older_than, states) or paths.run_id != run_id:
            continue
        if not _has_valid_result(paths) or is_kept(paths):
            continue
        pruned.append((run_id, remove(home, paths, dry_run)))
        directories.add(os.path.dirname(paths.root))
    if not dry_run:
        for directory in directories:
            _finish_interrupted(directory)
            _sweep_objects(objects_dir(directory), now)
    return pruned


def _has_valid_result(paths: RunPaths) -> bool:
    """Return whether a run's result file exists and is completely valid, so that all readers accept it as the run's
    end."""
    try:
        return read_record(paths.result, status_of) is not None
    except (OSError, DamagedRun):
        return False


def remove(home: str, paths: RunPaths, dry_run: bool = False) -> int:
    """Remove the directory of a run, or of an array of runs, in any state, and its entry below `home`; with `dry_run`
    only measure it. Return the bytes that the removal frees. Raise StorageError if it cannot be removed."""
    try:
        size = _measure(paths.root)
        if not dry_run:
            _remove_run(os.path.join(runs_link_dir(home), paths.run_id), paths.root)
    except OSError as error:
        raise storage_error(error, error.filename or paths.root) from None
    return size


def _is_selected(summary: Summary, now: float, older_than: float | None, states: Collection[str] | None) -> bool:
    if states is not None and summary.state not in states:
        return False
    return older_than is None or (summary.ended or summary.created) <= now - older_than


def _measure(root: str) -> int:
    """Return the total size in bytes of the files below the run directory `root` that have at most two hard links: that
    of the run, and that of the stored code."""
    total = 0
    for directory, _, names in os.walk(root):
        for name in names:
            status = os.lstat(os.path.join(directory, name))
            if status.st_nlink <= 2:
                total += status.st_size
    return total


def _remove_run(link: str, root: str) -> None:
    """Remove the run directory `root`, and `link`, its entry in the home's list of runs, if that is another path. Raise
    StorageError if another user has created the directory, or could have."""
    require_shared_directory(os.path.dirname(root))
    danger = foreign_danger(root)
    if danger:
        raise StorageError(f"is not removed: {danger}", root, f"its link {link} can be removed by hand")
    hidden = os.path.join(os.path.dirname(root), f"{_PRUNED}{os.path.basename(root)}.{os.urandom(6).hex()}")
    os.rename(root, hidden)
    if link != root:
        os.unlink(link)
    remove_tree(hidden)


def _finish_interrupted(directory: str) -> None:
    """Complete interrupted removals of this user's runs in the runs directory `directory`. Other users' removals in the
    same runs_dir are left to them. Nothing is removed where other users could have renamed another directory to such a
    name: they can move any directory that they can write to, and a run is never writable for them."""
    try:
        require_shared_directory(directory)
        with os.scandir(directory) as iterator:
            entries = list(iterator)
    except (OSError, StorageError):
        return
    for entry in entries:
        if entry.name.startswith(_PRUNED) and is_run_id(entry.name[len(_PRUNED) :].partition(".")[0]):
            try:
                if foreign_danger(entry.path):
                    continue
                remove_tree(entry.path)
            except (OSError, StorageError):
                pass  # the next prune tries again


def _sweep_objects(path: str, now: float) -> None:
    """Remove the files of the store of code at `path` that no run links any more, and stale temporary files. A snapshot
    that is taken meanwhile and misses an object stores it again.

    All operations are relative to the directory that was opened: renaming it, or putting a link in its place, has no
    effect.
    """
    try:
        directory = open_private_directory(path, make=False)
    except (OSError, StorageError):
        return
    try:
        for place, folders, names, folder in os.fwalk(".", dir_fd=directory):
            folders[:] = [name for name in folders if place == "." and _OBJECT_DIRECTORY.fullmatch(name)]
            for name in names:
                _sweep_file(folder, name, now, stored=place != ".")
    except OSError:
        pass  # what is left is swept the next time
    finally:
        os.close(directory)


def _sweep_file(folder: int, name: str, now: float, stored: bool) -> None:
    """Remove the file `name` in the open directory `folder` of the store of code if it is no longer used: this user's
    stored object (`stored`) without another link, or an old index or temporary file. A file that cannot be removed is
    swept the next time."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return
    if stored:
        stale = bool(_OBJECT.fullmatch(name)) and status.st_nlink == 1 and is_ours(status)
    elif name.startswith(_INDEX):
        stale = now - status.st_mtime > _STALE_INDEX
    else:
        stale = name.startswith(_TEMPORARY) and now - status.st_ctime > _STALE_TEMPORARY
    if stale:
        try_unlink(name, folder)
