"""The user's decisions about which paths to trust: `worldsize config trust PATH`, or an answer at the terminal.

    ~/.config/worldsize/trusted.json    {"version": 1, "paths": {PATH: …}}
        {"trusted": true, "sha256": …, "owner": UID}         a file
        {"trusted": true, "access": [UID, GID, MODE]}        a directory
        … [UID, GID, MODE, LIST]                             with an access list

A decision about a file is valid for its present content and owner; another content or owner needs another decision. A
directory is trusted together with everything below it and all users who may write to it now; a new owner, group or mode
needs another decision.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence

from worldsize.common.atomic_files import open_regular_file, printable_text, read_file, write_json
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.sha256 import sha256
from worldsize.errors import StorageError, UsageError
from worldsize.trust.keys import config_home
from worldsize.trust.links import follow_links, with_parents
from worldsize.trust.owners import access_list, danger_of, is_believed, is_private_group, is_unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERSION = 1
_WRITERS = stat.S_IWGRP | stat.S_IWOTH | stat.S_ISVTX


class Decision(NamedTuple):
    """A decision about a path. `path` is real (no link in it). `holds` is whether the file or directory is still as it
    was when the decision was made."""

    path: str
    trusted: bool
    holds: bool
    kind: str = "file"


def decision_about_file(path: str, data: bytes, environ: Mapping[str, str]) -> bool | None:
    """Return whether this user has decided to trust the file `path` with the content `data`; None if there is no
    decision about that content. None also if another user's link leads to the file, since it would be read as a file of
    the link's place."""
    try:
        follow_links(path, strict=True)
        owner = os.stat(path).st_uid
    except (OSError, StorageError):
        return None  # it may have been removed, and no decision is about its replacement
    entry = _read(environ).get(os.path.realpath(path), {})
    as_it_was = entry.get("sha256") == _digest(data) and entry.get("owner") == owner
    return bool(entry.get("trusted")) if as_it_was else None


def decision_about_directory(path: str, status: os.stat_result, environ: Mapping[str, str]) -> bool | None:
    """Return whether this user has decided to trust all users who can write to the directory `path`, whose stat is
    `status`; None if undecided. Trust in a directory above applies to this one if every user who can write to this one
    can also write to that."""
    entries, real = _read(environ), os.path.realpath(path)
    entry = entries.get(real, {})
    access = _access(status, real)
    if entry.get("access") == access:
        return bool(entry.get("trusted"))
    above = ((each, entries[each]) for each in with_parents(os.path.dirname(real)) if "access" in entries.get(each, {}))
    if any(
        entry.get("trusted") and _is_current(each, entry) and _is_covered(entry, status, access)
        for each, entry in above
    ):
        return True
    return None


def _is_covered(entry: Mapping[str, Any], status: os.stat_result, access: Sequence[Any]) -> bool:
    """Return whether all users who can write to an entry with the stat `status` and the data `access` are among those
    that the recorded decision `entry` about a directory covers."""
    owner, group, mode, *lists = entry["access"]
    if access[3:] and access[3:] != lists:
        return False
    if not is_believed(status.st_uid) and (status.st_uid != owner or is_unknown(owner)):
        return False
    if status.st_mode & stat.S_IWOTH and not mode & stat.S_IWOTH:
        return False
    said_of_group = mode & stat.S_IWGRP and access[3:] == lists  # with an access list the mode shows its mask
    same_group = status.st_gid == group and said_of_group
    known = same_group or is_private_group(status.st_gid) or mode & stat.S_IWOTH
    return bool(known) or not status.st_mode & stat.S_IWGRP


def write_decision(path: str, trusted: bool, environ: Mapping[str, str], data: bytes | None = None) -> Decision:
    """Write a decision whether to trust the path `path` to the user's file of decisions, and return it: about a file
    (as it is now, or with the content `data`) or a directory. Raise OSError if it cannot be read, UsageError if
    decisions cannot be stored. Raise UsageError also for trust in a path that is reached by another user's link, since
    that user decides where it leads."""
    real = os.path.realpath(path)
    try:
        if trusted:
            follow_links(path, strict=True)
    except StorageError:
        what = f"a link of another user leads to {printable_text(real)}"
        raise UsageError(what, printable_text(path), "if that is intended, name it") from None
    status = os.stat(real)
    entry: dict[str, Any] = {"trusted": trusted}
    if stat.S_ISDIR(status.st_mode):
        entry["access"] = _access(status, real)
    else:
        entry.update(sha256=_digest(read_file(real) if data is None else data), owner=status.st_uid)
    _write({**_read(environ), real: entry}, environ)
    return Decision(real, trusted, True, "directory" if "access" in entry else "file")


def try_write_decision(path: str, trusted: bool, environ: Mapping[str, str], data: bytes) -> None:
    """Write a decision whether to trust the file `path` with the content `data`, as `write_decision` does. A failure is
    ignored; the user is asked again the next time."""
    try:
        write_decision(path, trusted, environ, data)
    except (OSError, UsageError):
        pass  # the user is asked again the next time


def remove_decision(path: str, environ: Mapping[str, str]) -> bool:
    """Remove this user's decision whether to trust `path`. Return whether there was one. Raise UsageError if decisions
    cannot be stored."""
    entries, real = _read(environ), os.path.realpath(path)
    found = entries.pop(real, None) or entries.pop(os.path.abspath(path), None)
    if found is not None:
        _write(entries, environ)
    return found is not None


def read_decisions(environ: Mapping[str, str]) -> list[Decision]:
    """Return all decisions of this user about trusted and untrusted paths, as a list of Decision sorted by path."""
    return [
        Decision(
            path, bool(entry.get("trusted")), _is_current(path, entry), "directory" if "access" in entry else "file"
        )
        for path, entry in sorted(_read(environ).items())
    ]


def _is_current(path: str, entry: Mapping[str, Any]) -> bool:
    try:
        if "access" in entry:
            return bool(entry["access"] == _access(os.stat(path), path))
        return bool(entry.get("owner") == os.stat(path).st_uid and entry.get("sha256") == _digest(read_file(path)))
    except OSError:
        return False


def _file(environ: Mapping[str, str]) -> str:
    return os.path.join(config_home(environ), "trusted.json")


def _read(environ: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the entries of the user's file of trust decisions, as a mapping of real path to JSON object. The mapping
    is empty if another user could have written the file, or if it is damaged; everything is undecided then."""
    path = _file(environ)
    try:
        with open(open_regular_file(path), "rb") as file:
            if _is_doubtful(path, os.fstat(file.fileno())):
                return {}
            value = json.load(file)
    except (OSError, StorageError, ValueError, RecursionError):
        return {}
    paths = value.get("paths") if isinstance(value, dict) and value.get("version") == _VERSION else None
    if not isinstance(paths, dict):
        return {}
    return {path: entry for path, entry in paths.items() if isinstance(entry, dict)}


def _is_doubtful(path: str, status: os.stat_result) -> bool:
    """Return whether another user could have written the file of trust decisions, opened as `path` with the stat
    `status`, or have placed it there. A file of this user may contain what others wrote, as files in the code of a run
    do. Raise StorageError for another user's link.

    Only the nearest directories are checked: those further above may be ones that this user trusts, and the trusted
    paths are recorded in the file itself.
    """
    real = follow_links(path)
    if danger_of(status, real) or not os.path.samestat(os.lstat(real), status):
        return True
    return any(danger_of(os.stat(place), place) for place in {os.path.dirname(path), os.path.dirname(real)})


def _write(entries: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Write `entries`, a mapping of path to JSON object, as the user's file of trust decisions. Raise UsageError if it
    cannot be written, or if its directory, or the one in which that would be made, is not this user's: HOME is another
    user's then."""
    path = _file(environ)
    directory = os.path.dirname(os.path.abspath(path))
    existing = next(filter(os.path.exists, with_parents(directory)))
    why = danger_of(os.stat(existing))
    try:
        if why is None:
            os.makedirs(directory, 0o700, exist_ok=True)
            write_json(path, {"version": _VERSION, "paths": dict(sorted(entries.items()))})
    except OSError as error:
        why = error.strerror
    if why:
        hint = "HOME, or XDG_CONFIG_HOME, must be a directory that only you can write to"
        raise UsageError(f"your decisions cannot be stored there: {why}", existing, hint)


def _access(status: os.stat_result, path: str) -> list[Any]:
    """Return the data [UID, GID, MODE, LIST?] that determine who may write to the entry at `path`, from its stat
    `status` and its access list. A trust decision about a directory records them."""
    said = access_list(path) if status.st_mode & stat.S_IWGRP else b""
    return [status.st_uid, status.st_gid, status.st_mode & _WRITERS, *([said.hex()] if said else [])]


def _digest(data: bytes) -> str:
    digest: str = sha256(data).hexdigest()
    return digest
