"""Probe for the job's files: whether this node sees them and this user can read them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from worldsize.agent.machine.mount_table import Mount, mount_of_path, read_mounts, unmounted_point
from worldsize.common.atomic_files import open_regular_file
from worldsize.common.named_tuple import NamedTuple
from worldsize.state.check_rows import BAD, OK, VERDICTS, WARNING
from worldsize.trust.secrets import mask_text
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_paths
from worldsize.wings.checks.agent.readers.rank_directory import rank_directory
from worldsize.wings.checks.agent.readers.row_texts import error_words, join_texts, safe_text

_ID, _WHAT = "files.inputs", "the job's files"
_MOST_PATHS, _MOST_ENTRIES, _LONGEST = 200, 100, 200
OUTPUT = "output"
"""The prefix of the keys of outputs. The path of an output is that of the directory that will contain it."""

_MISSING = frozenset((errno.ENOENT, errno.ENOTDIR))
_MISSING_HINT = "mount its file system on this node, or correct the path"
_MENDS = {
    errno.EACCES: "let this user read it: its mode, or that of a directory above it",
    errno.ENOTCONN: "the program that mounts it has ended on this node: have it remounted",
    errno.ESTALE: "the file server no longer knows this node's mount: have it remounted",
}


class PathState(NamedTuple):
    """The state of a path on this node.

    kind     "directory", "file", "other"; "missing" if it does not exist, "error" if it cannot be examined
    entries  of a directory, the number of entries, counted up to 100; of a file, 0 if it is empty, else 1
    mount    the mount that the path is on; None if that is not known
    failed   the error with which the path cannot be used
    refused  whether this user cannot write where the job writes
    lacking  the mount point that /etc/fstab names and that is not mounted; usually ""
    """

    kind: str
    entries: int = 0
    mount: Mount | None = None
    failed: OSError | None = None
    refused: bool = False
    lacking: str = ""


def probe(context: NodeContext) -> ProbeResult:
    """Return the node check's row files.inputs, about the job's input and output paths, and the fact paths {key: [kind,
    entries, source, file system]}. Return an empty ProbeResult if the job has no paths."""
    paths = asked_paths(context.asked)[:_MOST_PATHS]
    if not paths:
        return ProbeResult()
    mounts = read_mounts(context.root)
    states = [(key, path, _state(context, key, path, mounts)) for key, path in paths]
    facts = {key: _fact(state) for key, _, state in states}
    value, verdict, hint = judge_states(states)
    return ProbeResult((context.row(_ID, _WHAT, value, verdict, hint),), {"paths": facts})


def _state(context: NodeContext, key: str, path: str, mounts: Sequence[Mount]) -> PathState:
    path = os.path.join(rank_directory(context), path)
    state = state_of(key, path, mounts)
    is_whole = state.entries or state.kind == "error" or not mounts
    return state if is_whole else state._replace(lacking=unmounted_point(path, mounts, context.root))


def state_of(key: str, path: str, mounts: Sequence[Mount]) -> PathState:
    """Return the PathState of an absolute path: its kind, entries, mount and error. A `key` that begins with "output"
    marks a path that the job writes to. `mounts` are the node's mounts."""
    try:
        mode = os.stat(path).st_mode
        kind = "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
        entries = _count_entries(path) if kind == "directory" else _open_and_measure(path) if kind == "file" else 1
    except OSError as error:
        return PathState("missing" if error.errno in _MISSING else "error", 0, None, error)
    except ValueError:  # a path with a NUL byte
        return PathState("missing", 0, None, FileNotFoundError(errno.ENOENT, ""))
    refused = key.startswith(OUTPUT) and not os.access(path, os.W_OK)
    return PathState(kind, entries, mount_of_path(os.path.realpath(path), mounts), None, refused)


def _count_entries(directory: str) -> int:
    """Return the number of entries of a directory, counted up to 100. Return 1 for a directory that may be entered but
    not listed, since a process that knows the names can use its files. Raise OSError."""
    try:
        with os.scandir(directory) as entries:
            return sum(1 for _ in zip(range(_MOST_ENTRIES), entries))
    except PermissionError:
        if not os.access(directory, os.X_OK):
            raise
        return 1


def _open_and_measure(path: str) -> int:
    """Open the file and return 0 if it is empty, else 1. The file is opened because only the file server knows whether
    this user may open it. Nothing is read: on some systems, reading would restore the file from a tape. Raise OSError.
    """
    file = open_regular_file(path)
    try:
        return 1 if os.fstat(file).st_size else 0
    finally:
        os.close(file)


def judge_states(states: Sequence[tuple[str, str, PathState]]) -> tuple[str, str, str]:
    """Return the value, verdict and hint of the row files.inputs for triples (key, path, PathState): the problems of
    all paths, the worst first, or the number of readable paths."""
    found = [_judgement(*each) for each in states]
    wrong = sorted((each for each in found if each[1] != OK), key=lambda each: -VERDICTS.index(each[1]))
    if not wrong:
        return ("1 path can be read" if len(found) == 1 else f"{len(found)} paths can be read"), OK, ""
    return join_texts([value for value, _, _ in wrong]), wrong[0][1], wrong[0][2]


def _judgement(key: str, path: str, state: PathState) -> tuple[str, str, str]:
    named = f"{key}: {safe_text(path, _LONGEST)}"
    mount = f"mount {safe_text(state.lacking, _LONGEST)} on this node: it is in /etc/fstab"
    if state.kind == "missing":
        verdict = WARNING if key.startswith(OUTPUT) else BAD  # the script may create the directory
        return f"{named} is missing", verdict, mount if state.lacking else _MISSING_HINT
    if state.failed is not None:
        why = f"cannot be read: {error_words(state.failed)}"
        return f"{named} {why}", BAD, _MENDS.get(state.failed.errno or 0, "ask the site's administrators about it")
    if state.refused:
        return f"{named} cannot be written", WARNING, "let this user write there, or name another directory"
    if state.lacking:
        return f"{named} is empty, and {safe_text(state.lacking, _LONGEST)} is not mounted", WARNING, mount
    return "", OK, ""


def _fact(state: PathState) -> list[object]:
    source, kind = (state.mount.source, state.mount.kind) if state.mount else ("", "")
    return [state.kind, state.entries, mask_text(source)[:_LONGEST], kind[:_LONGEST]]
