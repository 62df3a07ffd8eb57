"""Git information about the code: commit and branch are read from git's files, and a git process in the background
writes the uncommitted changes."""

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
"""Options that keep git from executing hooks and a file system monitor, and from rewriting the index, after which it
would execute a hook."""

_READ_ONLY = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
"""Variables that keep git from taking locks, for which the user's own git would wait, and from fetching."""


def find_repository(path: str) -> tuple[str, str] | None:
    """Return the git repository that contains `path`, as (nearest directory with .git, git directory), where a worktree
    or submodule has its own git directory. None if there is none.

    None also if the repository that git would use belongs to another user, as for git itself (safe.directory): its
    contents would be followed or executed. A directory that is itself a git directory under another name is ignored,
    since any archive may contain one.
    """
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
    """Return the commit and branch of the git repository around `path`, as {"commit", "branch"}, or None without a
    repository.

    `branch` is None for a detached HEAD. `commit` is None before the first commit, or if it cannot be read. Only a
    commit's number and a branch's name are read from a file, wherever HEAD leads.
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
    """Return the git directory that all worktrees of a repository share, found from `git_dir`, the git directory of one
    of them."""
    common = _first_line(os.path.join(git_dir, "commondir"))
    return os.path.join(git_dir, common) if common else git_dir


def _reference(line: str) -> str | None:
    """Return the reference name, such as refs/heads/main, in a `line` "ref: NAME" of a git file; None for any other
    line."""
    name = line[len("ref: ") :] if line.startswith("ref: refs/") else ""
    return name if name and not {"", ".", ".."} & set(name.split("/")) and "\0" not in name else None


def _valid_commit(text: str) -> str | None:
    """Return `text` if it is the number of a git commit, SHA-1 or SHA-256 in hexadecimal; None for anything else."""
    return text if len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text) else None


def start_git_diff(code_dir: str, target: str, environ: Mapping[str, str]) -> int | None:
    """Start writing the uncommitted changes below `code_dir` to the file `target` (mode 0600; empty if there are none).

    git executes the filters that the repository's configuration names, as `git status` does. Without them, files that
    they store in another form (Git LFS) would differ. git executes no hooks. It is given the repository explicitly,
    since by itself it would also accept a directory that only looks like one. In a submodule, only another commit
    counts as a change, and only its name is written: a git process in there would use a configuration that is not
    checked.

    Return the process id, for which callers need not wait; None without a repository or without git. Raise StorageError
    if other users can write the configuration, OSError if `target` cannot be made.
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
        # Its own process group, so that Ctrl-C at the terminal does not end it.
        return os.posix_spawnp("git", argv, {**environ, **_READ_ONLY}, file_actions=actions, setpgroup=0)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        os.unlink(target)
        return None


def _require_own_settings(git_dir: str) -> None:
    """Raise StorageError if other users can write the configuration of the git repository `git_dir`, which decides what
    git executes, unless this user trusts the git directory with all users who can write there."""
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
    """Return the commit that the reference `name` has in git's file of packed references, `path`; None if there is no
    such file or name, or the file cannot be read."""
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
    """Return the first line of a small regular file; None if there is no such file, it cannot be read, or the line is
    empty."""
    try:
        text = os.fsdecode(read_file(path, 4096)).split("\n", 1)[0].rstrip("\r")
    except OSError:
        return None
    return text or None
