"""The directory of one benchmark: creates it, locks it, and reads an earlier result from it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from worldsize.common.atomic_files import storage_error
from worldsize.errors import UsageError
from worldsize.wings.bench.result import BenchResult
from worldsize.wings.bench.result_file import RESULT, read_result

_OTHER_DIRECTORY = "write into another directory: --to DIR"


def default_directory(kind: str, now: float) -> str:
    return time.strftime(f"bench-{kind}-%Y%m%d-%H%M%S", time.localtime(now))


@contextmanager
def locked_directory(path: str) -> Generator[None, None, None]:
    """Lock the benchmark directory `path` for this process inside the context. Create it if it does not exist; remove a
    directory that was created here if it is still empty at the end. Raise UsageError if another benchmark writes there,
    or if the directory contains files of something else. Raise StorageError."""
    is_new = not os.path.lexists(path)
    try:
        os.makedirs(path, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except (NotADirectoryError, FileExistsError):
        raise UsageError("is not a directory", path, _OTHER_DIRECTORY) from None
    except OSError as error:
        raise storage_error(error, path) from None
    try:
        _lock(descriptor, path)
        if os.listdir(descriptor) and not os.path.lexists(os.path.join(path, RESULT)):
            raise UsageError("contains files that are not a benchmark's", path, _OTHER_DIRECTORY)
        yield
    finally:
        if is_new and not os.listdir(descriptor):
            with suppress(OSError):  # another process has removed it, or has just written into it
                os.rmdir(path)
        os.close(descriptor)


def _lock(descriptor: int, path: str) -> None:
    """Lock the benchmark directory that is open as `descriptor`. A file system that does not support locks counts as
    not locked. Raise UsageError if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise UsageError("another benchmark is writing there", path, _OTHER_DIRECTORY) from None


def former_result(directory: str, empty: BenchResult) -> BenchResult:
    """Return the result of an earlier session of the same benchmark in `directory`, to be continued; `empty` if there
    is none. Raise UsageError if the settings of the earlier session differ from those of `empty`."""
    if not os.path.lexists(os.path.join(directory, RESULT)):
        return empty
    former = read_result(directory)
    differing = _differences(former, empty)
    if differing:
        what = "a benchmark with other settings was measured there: " + "; ".join(differing)
        raise UsageError(what, directory, _OTHER_DIRECTORY)
    return former


def _differences(former: BenchResult, asked: BenchResult) -> list[str]:
    names = ("kind", "title", "unit", "scaling", "compute", "worldsize")
    before = {**{name: getattr(former, name) for name in names}, **former.settings}
    now = {**{name: getattr(asked, name) for name in names}, **asked.settings}
    return [
        f"{name} {_text(now.get(name))}, there {_text(before.get(name))}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]


def _text(value: str | None) -> str:
    return "not set" if value is None else f"{value or 'empty':.80}"
