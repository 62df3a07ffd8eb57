"""Which files of TensorBoard the processes of a node's ranks hold open, as /proc says.

tensorboardX and TensorFlow (Keras) hold their file open as long as they write. The writer of the package tensorboard,
which is torch's, Lightning's, accelerate's and transformers', opens its file for a moment only, each time that it
flushes, and is seen by chance: the client finds its files by their names (`tensorboard/event_files.py`).

Only names of links are read, nothing that they lead to: neither a dead file server nor a process that waits for a disk
makes a look wait. Paths are those that the process itself has, which in a container may be none of the node's.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

MOST_DESCRIPTORS = 1024
"""Descriptors that one look reads the names of, at 2 to 8 µs of a core each; the next look goes on where this one
stopped. Of one process, no further ones are ever looked at: the files of a training are opened at its start."""

MOST_FILES = 1024
"""Of one node, for as long as its agent runs."""

_MARK = "tfevents"
_DELETED = " (deleted)"


class OpenEventFiles:
    """What an agent has seen of its ranks' event files. Never raises for a process that ends or belongs to somebody
    else."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._seen: set[str] = set()
        self._next = 0

    def look(self, trees: Mapping[int, Sequence[int]]) -> list[tuple[str, int]]:
        """Return the event files, with their rank, that the ranks' processes (`trees`: pids by rank) have open for
        writing and that no look has told before."""
        processes = [(rank, pid) for rank in trees for pid in trees[rank]]
        found: list[tuple[str, int]] = []
        left = MOST_DESCRIPTORS
        for _ in processes:
            if left <= 0 or len(self._seen) >= MOST_FILES:
                break
            rank, pid = processes[self._next % len(processes)]
            self._next = (self._next + 1) % len(processes)
            names = self._descriptors(pid)
            left -= 1 + len(names)
            found += ((path, rank) for path in self._new_files(pid, names))
        return found

    def _descriptors(self, pid: int) -> list[str]:
        try:
            with os.scandir(f"{self._proc}/{pid}/fd") as entries:
                return [entry.name for entry in islice(entries, MOST_DESCRIPTORS)]
        except OSError:  # it has ended, or is another user's
            return []

    def _new_files(self, pid: int, descriptors: Sequence[str]) -> Iterator[str]:
        for number in descriptors:
            link = f"{self._proc}/{pid}/fd/{number}"
            try:
                path = os.readlink(link)
                if not _is_event_file(path) or path in self._seen or not _is_for_writing(link):
                    continue
            except OSError:  # it was closed meanwhile
                continue
            self._seen.add(path)
            yield path


def _is_event_file(path: str) -> bool:
    return _MARK in path and path[0] == "/" and _MARK in os.path.basename(path) and not path.endswith(_DELETED)


def _is_for_writing(link: str) -> bool:
    """The kernel shows how a file is open by the mode of the link, which lstat(2) reads without following it."""
    return bool(os.lstat(link).st_mode & 0o200)
