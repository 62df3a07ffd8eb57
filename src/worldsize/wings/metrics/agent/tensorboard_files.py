"""The search for the TensorBoard files that the processes of a node's ranks have open, according to /proc.

tensorboardX and TensorFlow (Keras) keep their file open while they write. The writer of the package tensorboard, which
torch, Lightning, accelerate and transformers use, opens its file only for a moment at each flush, and is seen by
chance. The client finds the files of that writer by their names (`tensorboard/event_files.py`).

Only the names of links are read, not their targets, so neither a dead file server nor a process that waits for a disk
blocks a look. Paths are as the process itself sees them, and in a container they may not exist on the node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

MOST_DESCRIPTORS = 1024
"""The number of descriptors whose names one look reads, at 2 to 8 µs of a core each. The next look continues with the
next process. Further descriptors of one process are never read: the files of a training are opened at its start."""

MOST_FILES = 1024
"""The most files of one node, in the whole life of its agent."""

_MARK = "tfevents"
_DELETED = " (deleted)"


class OpenEventFiles:
    """The search for TensorBoard event files that the processes of a node's ranks open. A process that has ended or
    belongs to another user never raises an error."""

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc
        self._seen: set[str] = set()
        self._next = 0

    def look(self, trees: Mapping[int, Sequence[int]]) -> list[tuple[str, int]]:
        """Return the TensorBoard event files that the ranks' processes have open for writing and that no earlier look
        has returned, as pairs (path, rank). `trees` maps each rank to the pids of its processes."""
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
        except OSError:  # the process has ended, or is another user's
            return []

    def _new_files(self, pid: int, descriptors: Sequence[str]) -> Iterator[str]:
        for number in descriptors:
            link = f"{self._proc}/{pid}/fd/{number}"
            try:
                path = os.readlink(link)
                if not _is_event_file(path) or path in self._seen or not _is_for_writing(link):
                    continue
            except OSError:  # the file was closed meanwhile
                continue
            self._seen.add(path)
            yield path


def _is_event_file(path: str) -> bool:
    return _MARK in path and path[0] == "/" and _MARK in os.path.basename(path) and not path.endswith(_DELETED)


def _is_for_writing(link: str) -> bool:
    """Return whether a file descriptor, given by its link /proc/PID/fd/N, is open for writing. The kernel shows this in
    the mode of the link, which lstat(2) reads without following it. Raise OSError if the descriptor has been closed."""
    return bool(os.lstat(link).st_mode & 0o200)
