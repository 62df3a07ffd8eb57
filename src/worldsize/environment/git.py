"""What git knows of the code: commit and branch read from its files, the uncommitted changes by one git process that
nothing waits for."""

from __future__ import annotations

import os
from collections.abc import Mapping

_SYMBOLIC_DEPTH = 5


def find_git_dir(path: str) -> str | None:
    """The git directory of the repository that `path` lies in; a worktree's or submodule's own."""
    path = os.path.abspath(path)
    while True:
        candidate = os.path.join(path, ".git")
        if os.path.isdir(candidate):
            return candidate
        pointer = _line(candidate)
        if pointer and pointer.startswith("gitdir: "):
            return os.path.normpath(os.path.join(path, pointer[len("gitdir: ") :]))
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent


def read_git(path: str) -> dict[str, str | None] | None:
    """{"commit", "branch"} of the repository around `path`, or None without one.

    `branch` is None for a detached HEAD; `commit` before the first commit, or where it cannot be read.
    """
    git_dir = find_git_dir(path)
    if git_dir is None:
        return None
    common = _line(os.path.join(git_dir, "commondir"))
    common_dir = os.path.join(git_dir, common) if common else git_dir
    head = _line(os.path.join(git_dir, "HEAD")) or ""
    if not head.startswith("ref: "):
        return {"commit": head or None, "branch": None}
    name = head[len("ref: ") :]
    return {"commit": _commit(git_dir, common_dir, name), "branch": name.removeprefix("refs/heads/")}


def start_git_diff(code_dir: str, target: str, environ: Mapping[str, str]) -> int | None:
    """Starts writing the uncommitted changes below `code_dir` to the file `target` (0600; empty: none).

    Returns the process to give to `finish_git_diff`; None without a repository or without git.
    Raises OSError where `target` cannot be made.
    """
    if find_git_dir(code_dir) is None:
        return None
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    argv = ["git", "-C", code_dir, "-c", "core.fsmonitor=false", "diff", "HEAD"]
    argv += ["--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--", "."]
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, target, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    try:
        # A group of its own: the terminal's Ctrl-C is not meant for it. No lock: the user's own git goes first.
        return os.posix_spawnp("git", argv, {**environ, "GIT_OPTIONAL_LOCKS": "0"}, file_actions=actions, setpgroup=0)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        os.unlink(target)
        return None


def finish_git_diff(process: int, wait: bool = True) -> bool:
    """Reaps the process; True when it has ended. Without `wait`, False says that it still writes."""
    try:
        ended, _ = os.waitpid(process, 0 if wait else os.WNOHANG)
    except ChildProcessError:
        return True
    return ended == process


def _commit(git_dir: str, common_dir: str, name: str) -> str | None:
    for _ in range(_SYMBOLIC_DEPTH):
        value = _line(os.path.join(git_dir, name)) or _line(os.path.join(common_dir, name))
        if value is None:
            return _packed(os.path.join(common_dir, "packed-refs"), name)
        if not value.startswith("ref: "):
            return value
        name = value[len("ref: ") :]
    return None


def _packed(path: str, name: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                commit, _, ref = line.rstrip("\n").partition(" ")
                if ref == name:
                    return commit
    except OSError:
        pass
    return None


def _line(path: str) -> str | None:
    """The first line of a small file, or None where there is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            text = os.fsdecode(file.read(4096)).split("\n", 1)[0].rstrip("\r")
    except OSError:
        return None
    return text or None
