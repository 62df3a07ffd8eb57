"""Room for the run's files and for those of the node: space, inodes, quota.

A disk is bad where a small file cannot be written; whatever its numbers say, they do not know a user's quota. They are
a warning where 95 % are in use and less than 1 GiB is left: a large disk at 95 % has room for many checkpoints, and a
small one with 1 GiB for logs and caches.
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
    """What was found of one directory: a row's value, verdict and hint."""

    value: str
    verdict: str = OK
    hint: str = ""


def probe(context: NodeContext) -> ProbeResult:
    """Its rows: files.space, files.inodes of the run's directory, files.node_disk of the node's own."""
    return ProbeResult((*_run_rows(context), _node_row(context)))


def _run_rows(context: NodeContext) -> Sequence[CheckRow]:
    """Return the rows of the run's directory. The system calls it the same where a disk has no space and where it has
    no inodes left."""
    failed, space = write_trial(context.run_dir), space_of(context.run_dir)
    has_no_inodes = space.inodes and not space.free_inodes and space.free > _ROOM_FOR_TRIAL
    if failed is not None and failed.errno == errno.ENOSPC and has_no_inodes:
        found = Finding(f"{context.run_dir}: 0 free of {space.inodes:,}", BAD, "remove files that are not needed")
        return (_row(context, "files.inodes", _INODES, found),)
    found = judge_space(space) if failed is None else _refusal(context.run_dir, failed)
    rows = [_row(context, "files.space", "free space in the run's directory", found)]
    if failed is None and space.free_inodes:  # with none left, no file could have been made: the number means nothing
        rows.append(_row(context, "files.inodes", _INODES, judge_inodes(space)))
    return rows


def judge_space(space: Space) -> Finding:
    """Judge the room of a file system on which a small file could be written."""
    if not space.total:
        return Finding("it can be written; the file system does not report its size")
    value = f"{size_text(space.free)} free of {size_text(space.total)}"
    is_short = space.free < _LITTLE and space.free <= space.total * (1 - _FULL_SHARE)
    if is_short or space.free < _TINY:
        return Finding(value, WARNING, "free some space: checkpoints and logs may not have room")
    return Finding(value)


def judge_inodes(space: Space) -> Finding:
    """Judge the inodes of a file system that counts them: there can be few left where there is space."""
    value = f"{space.free_inodes:,} free of {space.inodes:,}"
    if space.free_inodes < _FEW_INODES and space.free_inodes <= space.inodes * (1 - _FULL_SHARE):
        return Finding(value, WARNING, "remove files that are not needed: each new file takes an inode")
    return Finding(value)


def _node_row(context: NodeContext) -> CheckRow:
    """Return the worst of the directory for temporary files and of the one for local copies."""
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
    """Judge an error of the directory for temporary files. A full or failing disk is bad. A directory that is missing
    or read-only may be meant so, as in images: Python takes another one then (tempfile.gettempdir)."""
    found = _refusal(directory, failed)
    if failed.errno in _FULL | _FAILING:
        return found
    return found._replace(verdict=WARNING, hint=f"{found.hint}; TMPDIR names the directory for temporary files")


def _refused_copies(wanted: str, directory: str, failed: OSError) -> Finding:
    """Judge an error of the directory where the one for local copies is, or is to be made."""
    if directory == wanted or failed.errno in _FULL | _FAILING:
        return _refusal(directory, failed)
    return Finding(f"{wanted} is missing, and cannot be made in {directory}", BAD, _MENDS[errno.ENOENT])


def _refusal(directory: str, failed: OSError) -> Finding:
    """Judge an error of a directory that the run itself writes to."""
    mend = _MENDS.get(failed.errno or 0, "ask the site's administrators about this file system")
    return Finding(f"{directory}: {error_words(failed)}", BAD, mend)


def _temporary_directory(context: NodeContext) -> str:
    named = context.environ.get("TMPDIR", "")
    return named if os.path.isabs(named) else context.path("tmp")


def _existing_parent(path: str) -> str:
    """Return the directory itself, or the nearest one above it that is there: the node makes the rest."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _row(context: NodeContext, id: str, what: str, found: Finding) -> CheckRow:
    return context.row(id, what, found.value, found.verdict, found.hint)
