"""Finished runs removed, and with them the stored code that no run uses any more."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator

from worldsize.plan.files import storage_error
from worldsize.store.find import list_ids, run_paths
from worldsize.store.runs import objects_dir, runs_link_dir
from worldsize.store.summaries import Summary, final_summary

_PRUNED = ".pruned-"
_STALE_TEMPORARY = 3600.0
_STALE_INDEX = 30 * 86400.0


def prune(
    home: str,
    *,
    now: float,
    older_than: float | None = None,
    keep: int = 0,
    states: Collection[str] | None = None,
    dry_run: bool = False,
) -> list[tuple[str, int]]:
    """Removes finished runs, and returns (id, bytes that its removal frees), newest first.

    older_than  seconds since the end
    keep        the newest runs that stay, whatever their state
    states      final states; None: all of them

    A run without a readable result is never touched. One that is being removed is out of sight at once, and what an
    interrupted removal left is removed by the next. Raises StorageError where a run cannot be removed.
    """
    pruned = []
    directories = {runs_link_dir(home)}
    for run_id in list_ids(home)[keep:]:
        paths = run_paths(home, run_id)
        summary = final_summary(paths.result)
        if summary is None or not _wanted(summary, now, older_than, states) or paths.run_id != run_id:
            continue
        try:
            size = _measure(paths.root)
            if not dry_run:
                _remove_run(os.path.join(runs_link_dir(home), run_id), paths.root)
        except OSError as error:
            raise storage_error(error, error.filename or paths.root) from None
        pruned.append((run_id, size))
        directories.add(os.path.dirname(paths.root))
    if not dry_run:
        for directory in directories:
            _finish_interrupted(directory)
            _sweep_objects(objects_dir(directory), now)
    return pruned


def _wanted(summary: Summary, now: float, older_than: float | None, states: Collection[str] | None) -> bool:
    if states is not None and summary.state not in states:
        return False
    return older_than is None or (summary.ended or summary.created) <= now - older_than


def _measure(root: str) -> int:
    """Bytes of the files that nobody but this run and the stored code links."""
    total = 0
    for directory, _, names in os.walk(root):
        for name in names:
            status = os.lstat(os.path.join(directory, name))
            if status.st_nlink <= 2:
                total += status.st_size
    return total


def _remove_run(link: str, root: str) -> None:
    hidden = os.path.join(os.path.dirname(root), _PRUNED + os.path.basename(root))
    os.rename(root, hidden)
    if link != root:
        os.unlink(link)
    _remove_tree(hidden)


def _remove_tree(root: str) -> None:
    import shutil

    for directory, names, _ in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(path, 0o700)
    shutil.rmtree(root)


def _finish_interrupted(directory: str) -> None:
    for entry in _entries(directory):
        if entry.name.startswith(_PRUNED):
            try:
                _remove_tree(entry.path)
            except OSError:
                pass


def _sweep_objects(directory: str, now: float) -> None:
    """Removes objects that no run links. A snapshot taken meanwhile that misses one stores it again."""
    for entry in _entries(directory):
        if entry.is_dir(follow_symlinks=False):
            for stored in _entries(entry.path):
                status = _status(stored)
                if status and status.st_nlink == 1:
                    _unlink(stored.path)
            continue
        status = _status(entry)
        if status is None:
            continue
        if entry.name.startswith("index-"):
            stale = status.st_mtime < now - _STALE_INDEX
        else:
            stale = status.st_ctime < now - _STALE_TEMPORARY
        if stale:
            _unlink(entry.path)


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None


def _entries(directory: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as iterator:
            yield from list(iterator)
    except OSError:
        return


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
