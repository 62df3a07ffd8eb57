"""Virtual environments that are kept for the next checkout: each built once, whole or not at all.

An entry's name says which recipe made it from which files with which interpreter, so that a change of any of them is
another entry. What was interrupted while it was built, has lost files since, or does not start, is built again.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scripts.environments.pythons import identity
from scripts.environments.recipes import ROOT, Recipe, client_requirements

UNUSED_DAYS = 30
KINDS = ("environments", "roots")
"""The folders of the cache that hold entries."""

MARKER = ".complete"
"""Written last: JSON with the number of files."""

Build = Callable[[str], None]
Starts = Callable[[str], bool]


def cache_directory() -> str:
    """WORLDSIZE_TEST_CACHE, else ~/.cache/worldsize-test."""
    default = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "worldsize-test")
    return os.path.abspath(os.environ.get("WORLDSIZE_TEST_CACHE") or default)


def entry_path(cache: str, name: str, recipe: Recipe, python: str) -> str:
    """Where the environment of this recipe lies: a new path whenever something that it is made from changes."""
    digest = hashlib.sha256(identity(python).encode())
    for path in recipe.inputs():
        with open(os.path.join(ROOT, path), "rb") as file:
            digest.update(file.read())
    digest.update("\n".join(client_requirements(recipe)).encode())
    return os.path.join(cache, "environments", "%s-%s" % (name, digest.hexdigest()[:16]))


def is_complete(path: str, starts: Starts | None = None) -> bool:
    """Whether an entry was built to its end, still has all its files, and starts: an environment, its Python."""
    try:
        with open(os.path.join(path, MARKER), encoding="utf-8") as file:
            expected = json.load(file)["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return count_files(path) >= expected and (starts or _starts)(path)


def count_files(path: str) -> int:
    """Files that were installed: what Python compiles later does not count."""
    return sum(not name.endswith(".pyc") and name != MARKER for _, _, files in os.walk(path) for name in files)


def obtain(path: str, build: Build, starts: Starts | None = None) -> bool:
    """Build the entry unless it is complete; whether it had to be built. Waits while another process does."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _locked(path + ".lock"):
        if is_complete(path, starts):
            os.utime(os.path.join(path, MARKER))
            return False
        shutil.rmtree(path, ignore_errors=True)
        build(path)
        with open(os.path.join(path, MARKER), "w", encoding="utf-8") as file:
            json.dump({"files": count_files(path), "python": sys.version}, file)
    return True


def remove_unused(cache: str, now: float | None = None) -> list[str]:
    """Delete the entries that no checkout has asked for in UNUSED_DAYS days; their names."""
    oldest = (time.time() if now is None else now) - UNUSED_DAYS * 86400
    removed = []
    for path in sorted(path for kind in KINDS for path in glob.glob(os.path.join(glob.escape(cache), kind, "*"))):
        marker = os.path.join(path, MARKER)
        if os.path.isdir(path) and os.path.getmtime(marker if os.path.exists(marker) else path) < oldest:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(os.path.basename(path))
    return removed


def clone(source: str, target: str) -> None:
    """Make `target` the same environment, its files shared with the cache where the file system can.

    Programs in bin/ name their interpreter by its path, so those that name the source are written anew.
    """
    building = "%s.%d.new" % (target, os.getpid())
    shutil.rmtree(building, ignore_errors=True)
    shutil.copytree(source, building, symlinks=True, copy_function=_link, ignore=shutil.ignore_patterns(MARKER))
    programs = os.path.join(building, "bin")
    for name in os.listdir(programs):
        _rename_prefix(os.path.join(programs, name), source, target)
    if os.path.islink(target):
        os.unlink(target)
    shutil.rmtree(target, ignore_errors=True)
    os.rename(building, target)


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target


def _rename_prefix(path: str, old: str, new: str) -> None:
    if os.path.islink(path) or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        text = file.read()
    changed = text.replace(old.encode(), new.encode())
    if changed != text:
        mode = os.stat(path).st_mode
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(changed)
        os.chmod(path, mode)


@contextmanager
def _locked(path: str) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _starts(path: str) -> bool:
    python = os.path.join(path, "bin", "python")
    if not os.path.exists(python):
        return False
    return subprocess.call([python, "-c", "import pip"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
