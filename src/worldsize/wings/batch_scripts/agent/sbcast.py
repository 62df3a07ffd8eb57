"""`sbcast` on virtual nodes, which all see the same files: one copy is enough.

As Slurm's, it makes a new file, and never writes to one that somebody else may have made.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

from worldsize.wings.batch_scripts.agent.option_tables import read_options, sbcast_table

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def sbcast(words: Sequence[str]) -> int:
    """What sbcast exits with."""
    names, said, faults = _parse_words(words)
    if faults or len(names) != 2:
        what = "option {} {}".format(*faults[0]) if faults else f"Need two file names, have {len(names)} names"
        sys.stderr.write(f"sbcast: error: {what}\n")
        return 1
    source, target = names
    try:
        _copy(source, target, "force" in said, "preserve" in said)
    except OSError as error:
        sys.stderr.write(f"sbcast: error: {error.filename or target}: {error.strerror}\n")
        return 1
    return 0


def _parse_words(words: Sequence[str]) -> tuple[list[str], set[str], list[tuple[str, str]]]:
    """File names, options, and words that are neither, with why; options may stand behind names."""
    names: list[str] = []
    said: set[str] = set()
    faults: list[tuple[str, str]] = []
    while words:
        read = read_options(words, sbcast_table())
        said.update(option.name for option in read.options)
        faults += [(word, why) for word, why, _ in read.unknown]
        names += words[read.rest : read.rest + 1]
        words = words[read.rest + 1 :]
    return names, said, faults


def _copy(source: str, target: str, force: bool, preserve: bool) -> None:
    """A target that exists is replaced if it is this user's own file, or with `force`, by a new file of its name: in a
    directory with the sticky bit, nobody can replace another's. A directory is never a target: it may be another's, who
    has taken the name. Raises OSError."""
    try:
        _make(target, source, preserve)
    except FileExistsError:
        if not force and not _is_own_file(target):
            raise
        beside = f"{target}.{os.getpid()}.part"
        _make(beside, source, preserve)
        try:
            os.rename(beside, target)
        except OSError as error:
            os.unlink(beside)
            raise OSError(error.errno, error.strerror, target) from None


def _make(path: str, source: str, preserve: bool) -> None:
    """A new file, whole or not at all. Raises OSError, FileExistsError for what is there already."""
    import shutil

    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        with open(os.open(path, _NEW, 0o600), "wb") as copy:
            try:
                shutil.copyfileobj(file, copy)
                copy.flush()
                os.fchmod(copy.fileno(), status.st_mode & 0o755)  # the copy may lie where others come
                if preserve:
                    os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            except BaseException:
                os.unlink(path)
                raise


def _is_own_file(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
