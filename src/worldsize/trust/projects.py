"""Which `worldsize.toml` counts: the user's own, and a project's that only this user could have written, or that the
user trusts.

A project's file with authority, which decides what is executed or where a secret goes, is asked about once, at a
terminal: a cloned repository is its author's text, although it belongs to whoever cloned it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.atomic_files import open_regular_file
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import ConfigError
from worldsize.trust.directories import replacement_danger
from worldsize.trust.owners import danger_of, is_believed, user_name

TYPE_CHECKING = False

TRUST_VARIABLE = "WORLDSIZE_TRUST_PROJECT"
"""1: every project's file counts; 0: none that could harm, unless `worldsize config trust` says so."""


class ConfigFile(NamedTuple):
    """A file as it was read: `danger` is how others than this user and root could have changed it."""

    path: str
    data: bytes
    danger: str | None = None


class TrustQuestion(NamedTuple):
    """About a project's file: `said` is what it decides, (key, value) each."""

    path: str
    said: tuple[tuple[str, str], ...]


class TrustVerdict(NamedTuple):
    counts: bool
    notice: str = ""


if TYPE_CHECKING:
    Ask = Callable[[TrustQuestion], bool | None]
    """Ask the person at the terminal; None: no answer."""


def read_config(path: str, limit: int) -> ConfigFile:
    """Return the file, and at most `limit` + 1 bytes of it. ConfigError for what cannot be read or is no regular
    file."""
    try:
        with open(open_regular_file(path), "rb") as file:
            status = os.fstat(file.fileno())
            danger = danger_of_file(path, status) or _danger_of_directory(path)
            return ConfigFile(path, file.read(limit + 1), danger)
    except OSError as error:
        others = _foreign_owner(path)
        if others:
            return ConfigFile(path, b"", others)  # whoever wrote it could else stop everybody who works below it
        raise ConfigError(f"cannot be read: {error.strerror}", path) from None


def _foreign_owner(path: str) -> str | None:
    """Whose it is, where neither this user nor root made it, or the link that it is; one that has gone by now was
    somebody's who did not want that to be seen."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return "it no longer exists"
    return None if is_believed(owner) else f"it belongs to {user_name(owner)}"


def danger_of_file(path: str, status: os.stat_result) -> str | None:
    """How others could have written the file, or put another in its place: also by a link of theirs that leads to a
    file of this user's, whose relative paths would then be of their directory. None where they could not."""
    named = os.lstat(path) if os.path.lexists(path) else None
    others = _foreign_owner(path)
    if others:
        return others
    if named is not None and not stat.S_ISLNK(named.st_mode) and not os.path.samestat(named, status):
        return "it was replaced while it was read"
    place = os.path.dirname(path) or "."
    replaced = replacement_danger(place)
    if replaced:
        return replaced
    directory = os.stat(place)
    sticky = directory.st_mode & stat.S_ISVTX and is_believed(directory.st_uid)
    danger = danger_of(status, path) or (None if sticky else _danger_of_directory(path))
    return danger or (_danger_behind_link(path, status) if named and stat.S_ISLNK(named.st_mode) else None)


def _danger_behind_link(path: str, status: os.stat_result) -> str | None:
    """Return the danger of the file that a link of this user's, or root's, leads to."""
    replaced = replacement_danger(path)
    if replaced:
        return replaced
    real = os.path.realpath(path)
    if not os.path.samestat(os.lstat(real), status):
        return "it was replaced while it was read"
    return _danger_of_directory(real)


def _danger_of_directory(path: str) -> str | None:
    """How others could put files into the file's directory. Even with the sticky bit they could move a file of this
    user's there, whose relative paths would then start at that directory."""
    place = os.path.dirname(path) or "."
    danger = danger_of(os.stat(place), place)
    return danger and f"of its directory, {danger}"


_unanswered: set[tuple[str, bytes]] = set()
"""Files that were asked about in this process and not confirmed: they do not count when they are read again, even if
no answer can be stored."""


def judge_user_file(file: ConfigFile, environ: Mapping[str, str]) -> TrustVerdict:
    """Return the file in the user's own configuration directory, which is another's where HOME is."""
    if file.danger is None or _decision(file, environ):
        return TrustVerdict(True)
    return TrustVerdict(False, _exclusion(file))


def judge_project_file(
    file: ConfigFile,
    authority: Callable[[], Sequence[tuple[str, str]]],
    environ: Mapping[str, str],
    ask: Ask | None,
) -> TrustVerdict:
    """Return whether a project's file counts, and what is to be said about that. `authority` gives what it decides: the
    file is only read for that where nobody else could have written it. An answer is written down.

    Raises what `authority` does; ConfigError for a switch that says neither 0 nor 1.
    """
    switch = environ.get(TRUST_VARIABLE, "")
    if switch not in ("", "0", "1"):
        raise ConfigError(f"is {switch!r:.20}", TRUST_VARIABLE, "0, 1, or leave it out")
    decided = True if switch == "1" else _decision(file, environ)
    if decided is not None:
        return TrustVerdict(decided, "" if decided else _exclusion(file, "you have declined it"))
    if file.danger:
        return TrustVerdict(False, _exclusion(file))
    said = tuple(authority())
    if not said:
        return TrustVerdict(True)
    if switch == "0":
        return TrustVerdict(False, _exclusion(file, f"{TRUST_VARIABLE} is 0"))
    answer = ask(TrustQuestion(file.path, said)) if ask else None
    if answer is not None:
        from worldsize.trust.decisions import try_write_decision

        try_write_decision(file.path, answer, environ, file.data)  # or else it is asked again
    if ask and not answer:
        _unanswered.add((file.path, file.data))
    if (file.path, file.data) in _unanswered:
        return TrustVerdict(
            False, _exclusion(file, "you have declined it" if answer is False else "it has not been trusted")
        )
    if answer is None:
        keys = ", ".join(key for key, _ in said[:4]) + (", …" if len(said) > 4 else "")
        what = "%s sets %s; it is used, since only you can write to it. If you have read it: worldsize config trust %s"
        return TrustVerdict(True, what % (file.path, keys, file.path))
    return TrustVerdict(True)


def _decision(file: ConfigFile, environ: Mapping[str, str]) -> bool | None:
    from worldsize.trust.decisions import decision_about_file

    return decision_about_file(file.path, file.data, environ)


def _exclusion(file: ConfigFile, why: str = "") -> str:
    return f"{file.path} is ignored: {why or file.danger}; if you trust it: worldsize config trust {file.path}"
