"""What git knows of the code: commit and branch read from its files, the uncommitted changes by one git process that
nothing waits for."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from worldsize.common.atomic_files import open_regular_file, read_file
from worldsize.trust.decisions import decision_about_directory
from worldsize.trust.directories import require_reliable_directory
from worldsize.trust.links import unsafe_directory_error, with_parents
from worldsize.trust.owners import danger_of, is_believed

_SYMBOLIC_DEPTH = 5
_SETTINGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "diff.autoRefreshIndex=false")
"""git would write the index anew, and execute a hook after that."""

_READ_ONLY = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
"""No lock that the user's own git would wait for, and nothing is fetched."""


def find_repository(path: str) -> tuple[str, str] | None:
    """Return the directory with .git that `path` lies in, and its git directory; a worktree's or submodule's own. None
    where the one that git would take is another user's, as for git itself (safe.directory): what it holds would be
    followed, or executed. A directory that is a git directory itself, without that name, is none: any archive may hold
    one."""
    for directory in with_parents(os.path.abspath(path)):
        candidate = os.path.join(directory, ".git")
        try:
            status = os.lstat(candidate)
        except OSError:
            continue
        if not is_believed(status.st_uid):
            return None
        found = _git_dir_at(candidate)
        if found is not None:
            return (directory, found) if _is_believed(found) else None
    return None


def _git_dir_at(path: str) -> str | None:
    if os.path.isdir(path):
        return path
    pointer = _first_line(path)
    if pointer and pointer.startswith("gitdir: "):
        return os.path.normpath(os.path.join(os.path.dirname(path), pointer[len("gitdir: ") :]))
    return None


def _is_believed(path: str) -> bool:
    try:
        return is_believed(os.stat(path).st_uid)
    except OSError:
        return False


def read_git(path: str) -> dict[str, str | None] | None:
    """{"commit", "branch"} of the repository around `path`, or None without one.

    `branch` is None for a detached HEAD; `commit` before the first commit, or where it cannot be read. Only a commit's
    number and a branch's name are taken from a file, wherever HEAD leads.
    """
    repository = find_repository(path)
    if repository is None:
        return None
    git_dir = repository[1]
    common_dir = _common_dir(git_dir)
    head = _first_line(os.path.join(git_dir, "HEAD")) or ""
    name = _reference(head)
    if name is None:
        return {"commit": _valid_commit(head), "branch": None}
    return {"commit": _commit(git_dir, common_dir, name), "branch": name.removeprefix("refs/heads/")}


def _common_dir(git_dir: str) -> str:
    """Return the git directory that all worktrees of the repository share."""
    common = _first_line(os.path.join(git_dir, "commondir"))
    return os.path.join(git_dir, common) if common else git_dir


def _reference(line: str) -> str | None:
    """Return the name that a symbolic reference holds, if it is one below refs/."""
    name = line[len("ref: ") :] if line.startswith("ref: refs/") else ""
    return name if name and not {"", ".", ".."} & set(name.split("/")) and "\0" not in name else None


def _valid_commit(text: str) -> str | None:
    """Return the commit's number, SHA-1 or SHA-256 in hexadecimal; None for anything else."""
    return text if len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text) else None


def start_git_diff(code_dir: str, target: str, environ: Mapping[str, str]) -> int | None:
    """Starts writing the uncommitted changes below `code_dir` to the file `target` (0600; empty: none).

    git executes the filters that the repository's configuration names, as `git status` does: without them, files that
    they store otherwise (Git LFS) would differ. It executes no hooks, and is told which repository to use: by itself it
    would also take a directory that only looks like one. Of a submodule only another commit is a change, and only
    its name is told: a git in there would go by a configuration that is not checked.

    Returns the process, which nobody needs to wait for; None without a repository or without git. Raises StorageError
    if other users can write the configuration; OSError if `target` cannot be made.
    """
    repository = find_repository(code_dir)
    if repository is None:
        return None
    top, git_dir = repository
    _require_own_settings(git_dir)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    argv = ["git", "-C", code_dir, "--git-dir", git_dir, "--work-tree", top, *_SETTINGS, "diff", "HEAD"]
    argv += ["--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"]
    argv += ["--submodule=short", "--", "."]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, target, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        # A group of its own: the terminal's Ctrl-C is not meant for it.
        return os.posix_spawnp("git", argv, {**environ, **_READ_ONLY}, file_actions=actions, setpgroup=0)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        os.unlink(target)
        return None


def _require_own_settings(git_dir: str) -> None:
    """StorageError if other users can write the configuration, which decides what git executes; not if this user
    trusts the git directory with everybody who can write there."""
    common = _common_dir(git_dir)
    for directory in {git_dir, common, os.path.join(common, "info")}:
        require_reliable_directory(directory, make=False)
    for directory, name in ((common, "config"), (git_dir, "config.worktree")):
        path = os.path.join(directory, name)
        try:
            status, above = os.stat(path), os.stat(directory)
        except OSError:
            continue
        danger = danger_of(status, path)
        opened = status.st_mode & stat.S_IWOTH & ~above.st_mode
        if danger and (opened or not decision_about_directory(directory, above, os.environ)):
            raise unsafe_directory_error(directory, f"of its {name}, {danger}")


def _commit(git_dir: str, common_dir: str, name: str) -> str | None:
    for _ in range(_SYMBOLIC_DEPTH):
        value = _first_line(os.path.join(git_dir, name)) or _first_line(os.path.join(common_dir, name))
        if value is None:
            return _packed_commit(os.path.join(common_dir, "packed-refs"), name)
        further = _reference(value)
        if further is None:
            return _valid_commit(value)
        name = further
    return None


def _packed_commit(path: str, name: str) -> str | None:
    """Return the commit of a name in the file of packed references; None without such a file or name, and where it
    cannot be read."""
    try:
        with open(open_regular_file(path), encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                commit, _, ref = line.rstrip("\n").partition(" ")
                if ref == name:
                    return _valid_commit(commit)
    except OSError:
        pass
    return None


def _first_line(path: str) -> str | None:
    """Return the first line of a small regular file, or None where there is none, or none that can be read."""
    try:
        text = os.fsdecode(read_file(path, 4096)).split("\n", 1)[0].rstrip("\r")
    except OSError:
        return None
    return text or None
