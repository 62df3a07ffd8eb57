"""The runs that were started from a directory: one small file for each directory, `<home>/started/<digest>`, with a
line for each of its runs. The files may be deleted. Verbs without RUN do not find the runs then."""

from __future__ import annotations

import os

from worldsize.common.atomic_files import Descriptor, write_all
from worldsize.common.digests import digest_of
from worldsize.errors import StorageError
from worldsize.store.runs import is_run_id, runs_link_dir
from worldsize.trust.directories import make_private_directory

_LONGEST_READ = 1 << 16
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def note_start(home: str, directory: str, run_id: str) -> None:
    """Record in the home that the run `run_id` was started from the working directory `directory`. A failure is
    ignored, and does not keep the run from starting."""
    path = _file_of(home, directory)
    try:
        make_private_directory(os.path.dirname(path), follow=True)
        with Descriptor(os.open(path, _APPEND, 0o600)) as file:
            write_all(file, f"{run_id}\n".encode())
    except (OSError, StorageError):
        pass


def started_from(home: str, directory: str) -> list[str]:
    """Return the ids of the runs that were started from the working directory `directory` and still exist, newest
    first."""
    try:
        with Descriptor(os.open(_file_of(home, directory), _READ)) as file:
            size = os.fstat(file).st_size
            text = os.pread(file, _LONGEST_READ, max(0, size - _LONGEST_READ))
    except OSError:
        return []
    names = {line for line in text.decode("ascii", "replace").split("\n") if is_run_id(line) and "/" not in line}
    runs = runs_link_dir(home)
    return sorted((name for name in names if os.path.lexists(os.path.join(runs, name))), reverse=True)


def _file_of(home: str, directory: str) -> str:
    return os.path.join(home, "started", digest_of(os.fsencode(os.path.realpath(directory))))
