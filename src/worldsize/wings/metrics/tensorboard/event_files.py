"""The event files of a run, and the list of those that its agents have seen but that cannot be read here.

There are three sources: files in the run directory, except those that came with the code; files that agents have seen
open; and files in directories outside the run that the command or the job's variables name (`--log_dir
/scratch/me/tb`). The names of the last ones must show that a node of this run has created them while the run was
active.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import host_name
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.tensorboard.agent_notes import Note, Writers, host_of, read_notes, read_writers
from worldsize.wings.metrics.tensorboard.directory_walk import MOST_FILES, find_event_files
from worldsize.wings.metrics.tensorboard.file_names import FileName, is_event_file, parse_name
from worldsize.wings.metrics.tensorboard.named_directories import named_directories, run_span
from worldsize.wings.metrics.tensorboard.scalars import EventFile, directory_name

_OUTSIDE_ENTRIES = 5_000
_NOT_WALKED = ("attempt-", "inrank", "mlruns")
_MOST_UNREADABLE = 100


class UnreadableFile(NamedTuple):
    """A file that a rank writes, and that cannot be read here: it is on a disk of its node or in a container, or has
    been removed. `host` is the name of the node; "" if it is not known."""

    path: str
    rank: int
    host: str

    def __str__(self) -> str:
        elsewhere = self.host and self.host != host_name()
        where = f"on {self.host}, which cannot be read here" if elsewhere else "in a container, or they were removed"
        return f"rank {self.rank} writes TensorBoard files {where}: {os.path.dirname(self.path)}"


def event_files(paths: RunPaths, outside: bool = True) -> list[EventFile]:
    """Return the TensorBoard event files of a run, those of the latest attempt first, and of each attempt the newest
    first, according to their names. Without `outside`, only files in the run directory are returned: a file that
    another user's run names may be a private file of this user."""
    root = os.path.realpath(paths.root)
    notes = _readable_notes(paths)
    if not outside:
        notes = {path: note for path, note in notes.items() if path.startswith(root + "/")}
    found = [*notes, *(path for path in _files_inside(paths, root) if path not in notes)]
    writers = read_writers(paths, {_process(parse_name(path)) for path in found})
    if outside and not found:  # this search reads directories with other files, which may be large
        found = _files_outside(paths, root, writers)
    files = [(parse_name(path).created, _event_file(path, root, notes.get(path), writers)) for path in found]
    files.sort(key=lambda each: (each[1].attempt, each[0], each[1].path), reverse=True)
    return [file for _, file in files[:MOST_FILES]]


def unreadable_files(paths: RunPaths) -> list[UnreadableFile]:
    """Return the TensorBoard event files that the run's agents have seen open and that cannot be read on this machine,
    at most one for each rank and directory."""
    found: dict[tuple[int, str], UnreadableFile] = {}
    for note in read_notes(paths):
        place = (note.rank, os.path.dirname(note.path))
        path = _local_path(note.path, paths)
        if place in found or len(found) >= _MOST_UNREADABLE or not is_event_file(path):
            continue
        if not os.path.isfile(path) or not os.access(path, os.R_OK):
            found[place] = UnreadableFile(note.path, note.rank, host_of(paths, note))
    return list(found.values())


def _readable_notes(paths: RunPaths) -> dict[str, Note]:
    """Return the agents' notes about TensorBoard event files that exist on this machine, by path with links
    resolved."""
    found = {}
    for note in read_notes(paths):
        path = _local_path(note.path, paths)
        if is_event_file(path) and os.path.isfile(path):
            found[os.path.realpath(path)] = note
    return found


def _local_path(path: str, paths: RunPaths) -> str:
    """Return the path on this machine of a TensorBoard event file, whose path on a node is `path`. A file in the run
    directory is located by its path within that directory, since nodes may see the directory under another path."""
    _, found, inside = path.partition(f"/{paths.run_id}/")
    return os.path.join(paths.root, inside) if found else path


def _files_inside(paths: RunPaths, root: str) -> Sequence[str]:
    """Return the paths of the TensorBoard event files in the run directory, except those that came with the code."""
    found = list(find_event_files(root, lambda name: not name.startswith(_NOT_WALKED)))
    code = os.path.join(root, "code", "")
    if not any(path.startswith(code) for path in found):
        return found
    listed = read_object(paths.manifest).get("files")
    old = frozenset(listed) if isinstance(listed, dict) else frozenset()
    return [path for path in found if not path.startswith(code) or path[len(code) :] not in old]


def _files_outside(paths: RunPaths, root: str, writers: Writers) -> list[str]:
    """Return the paths of the TensorBoard event files in directories outside the run that its plan names, which a node
    of this run created while the run was active. If some are known to be written by this run's ranks, only these are
    returned, because runs share such directories."""
    found: list[str] = []
    begin, end = run_span(paths)
    for directory in named_directories(paths, root):
        for path in find_event_files(directory, entries=_OUTSIDE_ENTRIES):
            name = parse_name(path)
            if begin <= name.created <= end and _is_of_hosts(name, writers):
                found.append(path)
    surely = [path for path in found if _process(parse_name(path)) in writers.ranks]
    return [os.path.realpath(path) for path in surely or found]


def _is_of_hosts(name: FileName, writers: Writers) -> bool:
    return name.host in writers.hosts or any(name.host.startswith(host + ".") for host in writers.hosts)


def _process(name: FileName) -> tuple[str, int]:
    return name.host, -1 if name.pid is None else name.pid


def _event_file(path: str, root: str, note: Note | None, writers: Writers) -> EventFile:
    """Return the TensorBoard event file at `path` with its attempt and rank. They are taken from the note of an agent,
    else from the process that the file's name contains. If neither is known, the attempt is the last one that had begun
    when the file was created, and the rank is None."""
    name = parse_name(path)
    known = (note.attempt, note.rank) if note else writers.ranks.get(_process(name))
    attempt, rank = known or (_attempt_at(name.created, writers.starts), None)
    return EventFile(path, directory_name(os.path.dirname(path), root), rank, attempt)


def _attempt_at(created: int, starts: Mapping[int, float]) -> int:
    return max((attempt for attempt, start in starts.items() if start <= created + 1), default=0)
