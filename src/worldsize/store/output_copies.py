"""Copies of files that a run has written, to a directory that the user names."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase

from worldsize.common.atomic_files import Descriptor, storage_error, try_unlink
from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.ignore_rules import RESULT_MARK
from worldsize.store.output_files import OutputFile, place_of

_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_wanted(path: str, pattern: str | None) -> bool:
    """Return whether an output file's `path`, its name, or a directory above it matches the shell pattern `pattern`.
    None matches all files."""
    if pattern is None:
        return True
    pattern = os.path.normpath(pattern)
    parts = path.split("/")
    above = ("/".join(parts[:number]) for number in range(1, len(parts) + 1))
    return fnmatchcase(parts[-1], pattern) or any(fnmatchcase(each, pattern) for each in above)


def make_result_directory(name: str) -> str:
    """Make the directory `name` for copied outputs, unless it exists, with a mark that keeps snapshots from treating it
    as code. Return its absolute path. Raise StorageError if that fails."""
    directory = os.path.abspath(name)
    try:
        os.makedirs(directory, exist_ok=True)
        open(os.path.join(directory, RESULT_MARK), "ab").close()
    except OSError as error:
        raise storage_error(error, directory) from None
    return directory


def copy_output(paths: RunPaths, file: OutputFile, directory: str) -> str:
    """Copy the output `file` of a run below `directory`, under its own relative path, and return the path of the copy.
    An existing file with the same size and time is kept; any other is never replaced. Raise StorageError if that fails,
    or if another file exists."""
    source, target = place_of(paths, file), os.path.join(directory, file.path)
    try:
        with Descriptor(os.open(source, _READ)) as opened:
            status = os.fstat(opened)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError("is not a regular file", source)
            if _is_there(target, status):
                return target
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _copy(opened, status, target)
    except FileExistsError:
        raise StorageError("exists already, and differs", target, "name another place: --to DIR") from None
    except OSError as error:
        raise storage_error(error, error.filename or target) from None
    return target


def _is_there(target: str, status: os.stat_result) -> bool:
    """Return whether the file `target` exists already with the size and modification time of `status`, as a copy would
    have. Raise FileExistsError if another file exists there."""
    try:
        there = os.lstat(target)
    except FileNotFoundError:
        return False
    if stat.S_ISREG(there.st_mode) and (there.st_size, there.st_mtime_ns) == (status.st_size, status.st_mtime_ns):
        return True
    raise FileExistsError(target)


def _copy(opened: int, status: os.stat_result, target: str) -> None:
    partial = f"{target}.part"
    try:
        with open(partial, "wb") as file:
            while chunk := os.read(opened, _CHUNK):
                file.write(chunk)
        os.chmod(partial, (status.st_mode & 0o777) | 0o600)
        os.utime(partial, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(partial, target)
    finally:
        try_unlink(partial)
