"""The decision which `worldsize.toml` files count: the user's own, and a project's file that only this user could have
written, or that the user trusts.

A project's file with authority decides what is executed or where a secret is sent. The user is asked about it once, at
a terminal, since a cloned repository is its author's text although the files belong to the user who cloned it.
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
"""The variable that decides for all project files. 1: every file counts; 0: no file with authority counts, unless it
was trusted by `worldsize config trust`."""


class ConfigFile(NamedTuple):
    """A configuration file as it was read. `danger` states how users other than this one and root could have changed
    it; None if they could not."""

    path: str
    data: bytes
    danger: str | None = None


class TrustQuestion(NamedTuple):
    """The question whether to trust a project's file. `said` are the settings that it decides, as (key, value)."""

    path: str
    said: tuple[tuple[str, str], ...]


class TrustVerdict(NamedTuple):
    counts: bool
    notice: str = ""


if TYPE_CHECKING:
    Ask = Callable[[TrustQuestion], bool | None]
    """Callback that asks the person at the terminal; None if there was no answer."""


def read_config(path: str, limit: int) -> ConfigFile:
    """Return the configuration file `path` with at most `limit` + 1 bytes of its content, and the danger that others
    changed it. A file that cannot be read and that belongs to another user is returned without content. Raise
    ConfigError for any other file that cannot be read or is not a regular file."""
    try:
        with open(open_regular_file(path), "rb") as file:
            status = os.fstat(file.fileno())
            danger = danger_of_file(path, status) or _danger_of_directory(path)
            return ConfigFile(path, file.read(limit + 1), danger)
    except OSError as error:
        others = _foreign_owner(path)
        if others:
            return ConfigFile(path, b"", others)  # an error would let its owner block all users below it
        raise ConfigError(f"cannot be read: {error.strerror}", path) from None


def _foreign_owner(path: str) -> str | None:
    """Return a text that names the owner of the configuration file, or of the link, at `path`, if that is neither this
    user nor root; None if it is. A file that no longer exists is also reported, since another user may have removed it
    to hide the owner."""
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        return "it no longer exists"
    return None if is_believed(owner) else f"it belongs to {user_name(owner)}"


def danger_of_file(path: str, status: os.stat_result) -> str | None:
    """Return a text about how other users could have written or replaced the configuration file `path`, opened with the
    stat `status`; None if they could not. Another user's link to a file of this user counts too, since relative paths
    in the file would then start at that user's directory."""
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
    """Return a text about how other users could have replaced the configuration file to which the link `path`, made by
    this user or root, leads; None if they could not."""
    replaced = replacement_danger(path)
    if replaced:
        return replaced
    real = os.path.realpath(path)
    if not os.path.samestat(os.lstat(real), status):
        return "it was replaced while it was read"
    return _danger_of_directory(real)


def _danger_of_directory(path: str) -> str | None:
    """Return a text about how other users could place files in the directory of the file `path`; None if they could
    not. Even with the sticky bit they could move a file of this user there, whose relative paths would then start at
    that directory."""
    place = os.path.dirname(path) or "."
    danger = danger_of(os.stat(place), place)
    return danger and f"of its directory, {danger}"


_unanswered: set[tuple[str, bytes]] = set()
"""Files about which this process has asked without a confirmation. They do not count when they are read again, even if
no answer can be stored."""


def judge_user_file(file: ConfigFile, environ: Mapping[str, str]) -> TrustVerdict:
    """Return the verdict whether the site's configuration file, or the one in the user's own configuration directory,
    counts: it does unless others could have changed it and the user has not trusted it. The latter may be another
    user's file if HOME is another user's."""
    if file.danger is None or _decision(file, environ):
        return TrustVerdict(True)
    return TrustVerdict(False, _exclusion(file))


def judge_project_file(
    file: ConfigFile,
    authority: Callable[[], Sequence[tuple[str, str]]],
    environ: Mapping[str, str],
    ask: Ask | None,
) -> TrustVerdict:
    """Return the verdict whether a project's worldsize.toml counts, with a notice about that. `authority` returns the
    settings that the file decides, and is only called if no other user could have written the file. `ask` asks the
    user. An answer is stored.

    Raise the errors of `authority`; ConfigError if the variable TRUST_VARIABLE is neither 0 nor 1.
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

        try_write_decision(file.path, answer, environ, file.data)  # if that fails, the user is asked again
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
