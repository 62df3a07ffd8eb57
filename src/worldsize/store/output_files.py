"""The files that a run's command has written: below `./outputs`, and elsewhere in its working directory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice

from worldsize.common.atomic_files import read_object
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.array import array_of
from worldsize.plan.run_paths import RunPaths

OUTPUTS, WORKING_DIRECTORY = "outputs", "workdir"
_OUTPUTS, _LOGS = "outputs/", "logs/"
_NOT_COUNTED = frozenset(("__pycache__", ".pytest_cache", ".ipynb_checkpoints"))
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutputFile(NamedTuple):
    """A file that a run has written. `path` is as the command names it, `outputs/model.pt` or `loss.csv`. `where` is
    "outputs" or "workdir"."""

    path: str
    bytes: int
    where: str


def output_files(paths: RunPaths) -> Iterator[OutputFile]:
    """Yield the files that the run's command has written so far, each as an OutputFile, sorted by path, outputs first.
    Unchanged files of the code's snapshot and caches of Python are left out, and links are not followed. Directories
    and files that cannot be read are skipped."""
    known, taken = _snapshot_files(paths)
    yield from _files_below(paths.outputs, OUTPUTS, _OUTPUTS, known, taken)
    yield from _working_directory_files(paths, known, taken)


def count_working_directory_files(paths: RunPaths, most: int) -> int:
    """Return how many files the run's command has written in its working directory outside `./outputs`; `most` + 1 for
    more than `most`."""
    return sum(1 for _ in islice(_working_directory_files(paths, *_snapshot_files(paths)), most + 1))


def has_output_files(paths: RunPaths) -> bool:
    return next(output_files(paths), None) is not None


def place_of(paths: RunPaths, file: OutputFile) -> str:
    """Return the absolute path of an output file of the run, from its path as the command names it."""
    if file.where == OUTPUTS:
        return os.path.join(paths.root, file.path)
    if file.path.startswith(_LOGS):
        return os.path.join(paths.user_logs, file.path[len(_LOGS) :])
    return os.path.join(paths.code, file.path)


def file_at(paths: RunPaths, place: str, size: int) -> OutputFile | None:
    """Return the OutputFile at the absolute path `place` in the run's directories for outputs and logs, with its path
    as the command names it and the size `size`; None for a path elsewhere."""
    for root, prefix, where in ((paths.outputs, _OUTPUTS, OUTPUTS), (paths.user_logs, _LOGS, WORKING_DIRECTORY)):
        if place.startswith(root + os.sep):
            return OutputFile(prefix + place[len(root) + 1 :], size, where)
    return None


def _working_directory_files(paths: RunPaths, known: Mapping[str, int], taken: int) -> Iterator[OutputFile]:
    """Yield the files that a run's command has written outside `./outputs`. `known` and `taken` are the files and the
    time of the snapshot. The command's `./logs` is a link to a directory next to the code."""
    yield from _files_below(paths.code, WORKING_DIRECTORY, "", known, taken)
    yield from _files_below(paths.user_logs, WORKING_DIRECTORY, _LOGS, known, taken)


def _snapshot_files(paths: RunPaths) -> tuple[Mapping[str, int], int]:
    """Return the sizes of the files in the run's snapshot of the code, by path, and when the snapshot was taken, in
    nanoseconds. Elements of an array share a snapshot."""
    array = array_of(paths)
    manifest = RunPaths(array[0]).manifest if array else paths.manifest
    try:
        taken = os.stat(manifest).st_mtime_ns
        files = read_object(manifest)["files"]
        return {path: size for path, (_, size, _) in files.items()}, taken
    except (OSError, *PARSE_ERRORS):
        return {}, 0


def _files_below(root: str, where: str, prefix: str, known: Mapping[str, int], taken: int) -> Iterator[OutputFile]:
    """Yield the files below the directory `root` that the run's command has written: new, or different in size or time
    from the snapshot's file. `root` may be the user's own place for outputs, reached by a link that worldsize has made.
    """
    try:
        top = os.open(root, _DIRECTORY)
    except OSError:
        return
    try:
        for place, folders, names, folder in os.fwalk(".", dir_fd=top):
            folders[:] = sorted(name for name in folders if name not in _NOT_COUNTED)
            inside = "" if place == "." else place[2:] + "/"
            for name in sorted(names):
                path = prefix + inside + name
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                if not stat.S_ISREG(status.st_mode):
                    continue
                if known.get(path) != status.st_size or status.st_mtime_ns > taken:
                    yield OutputFile(path, status.st_size, where)
    finally:
        os.close(top)
