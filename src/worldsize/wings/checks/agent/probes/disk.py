"""Probe for the space, inodes and quota that the run's files and the node's own files have.

A disk is bad if a small file cannot be written. The numbers of the file system do not decide this, because they do not
include a user's quota. The numbers lead to a warning if 95 % of the space is in use and less than 1 GiB is left: a
large disk at 95 % has room for many checkpoints, and a small disk with 1 GiB has room for logs and caches.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, VERDICTS, WARNING, CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_text
from worldsize.wings.checks.agent.readers.disk_space import Space, space_of, write_trial
from worldsize.wings.checks.agent.readers.row_texts import error_words, size_text

_FULL_SHARE = 0.95
_LITTLE, _TINY = 1 << 30, 64 << 20
_ROOM_FOR_TRIAL = 1 << 20
_FEW_INODES = 10_000
_INODES = "free inodes in the run's directory"

_FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
_FAILING = frozenset((errno.EIO, errno.ESTALE, errno.ENOTCONN))
_MENDS = {
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "your quota is used up: free some space there, or ask for more",
    errno.EROFS: "the file system is read-only on this node: name another directory, or have it remounted",
    errno.EACCES: "this user may not write there: change the directory's mode, or name another one",
    errno.ENOENT: "the directory is missing on this node: is its file system mounted?",
}


class Finding(NamedTuple):
    """The judgement on one directory or its file system: the value, verdict and hint of a row of the node check."""

    value: str
    verdict: str = OK
    hint: str = ""


def probe(context: NodeContext) -> ProbeResult:
    """Return the node check's rows files.space and files.inodes, about the run's directory, and files.node_disk, about
    the node's directories for temporary files and local copies."""
    return ProbeResult((*_run_rows(context), _node_row(context)))


def _run_rows(context: NodeContext) -> Sequence[CheckRow]:
    """Try to write a small file in the run's directory, and return the rows files.space and files.inodes about it, or
    only a bad row files.inodes if no inode is free. The system reports the same error for a disk without space and for
    one without inodes, so the free counts distinguish the two cases."""
    failed, space = write_trial(context.run_dir), space_of(context.run_dir)
    has_no_inodes = space.inodes and not space.free_inodes and space.free > _ROOM_FOR_TRIAL
    if failed is not None and failed.errno == errno.ENOSPC and has_no_inodes:
        found = Finding(f"{context.run_dir}: 0 free of {space.inodes:,}", BAD, "remove files that are not needed")
        return (_row(context, "files.inodes", _INODES, found),)
    found = judge_space(space) if failed is None else _refusal(context.run_dir, failed)
    rows = [_row(context, "files.space", "free space in the run's directory", found)]
    if failed is None and space.free_inodes:  # without a free inode no file could be made: 0 means nothing here
        rows.append(_row(context, "files.inodes", _INODES, judge_inodes(space)))
    return rows


def judge_space(space: Space) -> Finding:
    """Return a Finding on the free space of a file system on which a small file could be written: a warning if it is
    nearly full, OK otherwise."""
    if not space.total:
        return Finding("it can be written; the file system does not report its size")
    value = f"{size_text(space.free)} free of {size_text(space.total)}"
    is_short = space.free < _LITTLE and space.free <= space.total * (1 - _FULL_SHARE)
    if is_short or space.free < _TINY:
        return Finding(value, WARNING, "free some space: checkpoints and logs may not have room")
    return Finding(value)


def judge_inodes(space: Space) -> Finding:
    """Return a Finding on the free inodes of a file system that counts them: a warning if few are left, OK otherwise.
    Few inodes can be left although there is space."""
    value = f"{space.free_inodes:,} free of {space.inodes:,}"
    if space.free_inodes < _FEW_INODES and space.free_inodes <= space.inodes * (1 - _FULL_SHARE):
        return Finding(value, WARNING, "remove files that are not needed: each new file takes an inode")
    return Finding(value)


def _node_row(context: NodeContext) -> CheckRow:
    """Return the row files.node_disk. It contains the worse Finding of two directories: that for temporary files, and
    that for local copies if the job names one."""
    found: list[tuple[str, Callable[[str, OSError], Finding]]] = [(_temporary_directory(context), judge_temporary)]
    local = asked_text(context.asked, "node_disk")
    if local and os.path.isabs(local):
        found.append((_existing_parent(local), partial(_refused_copies, local)))
    judged = [_judge_directory(directory, judge) for directory, judge in dict(found).items()]
    worst = max(judged, key=lambda each: VERDICTS.index(each.verdict))
    return _row(context, "files.node_disk", "the node's own disk", worst)


def _judge_directory(directory: str, judge: Callable[[str, OSError], Finding]) -> Finding:
    failed = write_trial(directory)
    if failed is not None:
        return judge(directory, failed)
    found = judge_space(space_of(directory))
    return found._replace(value=f"{directory}: {found.value}")


def judge_temporary(directory: str, failed: OSError) -> Finding:
    """Return a Finding on the error with which a small file could not be written in the directory for temporary files.
    A full or failing disk is bad. Other errors are warnings: a directory that is missing or read-only may be intended,
    as in images, and Python then uses another one (tempfile.gettempdir)."""
    found = _refusal(directory, failed)
    if failed.errno in _FULL | _FAILING:
        return found
    return found._replace(verdict=WARNING, hint=f"{found.hint}; TMPDIR names the directory for temporary files")


def _refused_copies(wanted: str, directory: str, failed: OSError) -> Finding:
    """Return a bad Finding on the error with which a small file could not be written in `directory`, which is the
    directory for local copies (`wanted`) or the existing parent in which it must be created."""
    if directory == wanted or failed.errno in _FULL | _FAILING:
        return _refusal(directory, failed)
    return Finding(f"{wanted} is missing, and cannot be made in {directory}", BAD, _MENDS[errno.ENOENT])


def _refusal(directory: str, failed: OSError) -> Finding:
    """Return a bad Finding that names the directory and the error with which a small file could not be written there,
    with a hint for this error."""
    mend = _MENDS.get(failed.errno or 0, "ask the site's administrators about this file system")
    return Finding(f"{directory}: {error_words(failed)}", BAD, mend)


def _temporary_directory(context: NodeContext) -> str:
    named = context.environ.get("TMPDIR", "")
    return named if os.path.isabs(named) else context.path("tmp")


def _existing_parent(path: str) -> str:
    """Return `path` itself if it is a directory, otherwise the nearest directory above it that exists. The node creates
    the missing directories."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _row(context: NodeContext, id: str, what: str, found: Finding) -> CheckRow:
    return context.row(id, what, found.value, found.verdict, found.hint)
