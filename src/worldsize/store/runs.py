"""Run ids and run directories: creating them, and discarding them if nothing was submitted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from worldsize.common.atomic_files import storage_error, try_unlink
from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.directories import drop_access_lists, make_private_directory, require_shared_directory

_BASE32 = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH = len("20261121-103158-417k3f")
_ATTEMPTS = 20


def home_dir(environ: Mapping[str, str]) -> str:
    """Return the absolute path of worldsize's home: WORLDSIZE_HOME, or ~/.worldsize."""
    return os.path.abspath(os.path.expanduser(environ.get("WORLDSIZE_HOME") or "~/.worldsize"))


def runs_link_dir(home: str) -> str:
    """Return the directory of the home in which every run is found under its id, as a directory or a link."""
    return os.path.join(home, "runs")


def objects_dir(runs_dir: str) -> str:
    """Return the directory of the object store, which contains the file contents of this user's code snapshots, for
    runs in `runs_dir`. It is on the same file system.

    There is one per user, since a site may configure one runs_dir for all.
    """
    return os.path.join(runs_dir, f".objects-{os.getuid()}")


def new_run_id(now: float, random: Callable[[int], bytes]) -> str:
    """Return a new id such as `20261121-103158-417k3f`: UTC to the millisecond, then 15 random bits. Ids sort by
    time."""
    milliseconds = int(now * 1000)
    t = time.gmtime(milliseconds // 1000)
    bits = int.from_bytes(random(2), "big")
    draw = _BASE32[bits & 31] + _BASE32[bits >> 5 & 31] + _BASE32[bits >> 10 & 31]
    return time.strftime("%Y%m%d-%H%M%S", t) + f"-{milliseconds % 1000:03d}{draw}"


def is_run_id(name: str) -> bool:
    """Return whether a name in a runs directory is the id of a run. Cheap enough for 10,000 names.

    A scheduler's script that was submitted by hand makes runs whose ids end in the job's number: `…-417k3f-7`.
    """
    if len(name) < _ID_LENGTH or not name[8] == name[15] == "-" or name[0] == ".":
        return False
    return len(name) == _ID_LENGTH or (name[_ID_LENGTH] == "-" and name[_ID_LENGTH + 1 :].isdigit())


def create_run(
    home: str,
    runs_dir: str | None = None,
    *,
    array: bool = False,
    now: Callable[[], float] = time.time,
    random: Callable[[int], bytes] = os.urandom,
) -> RunPaths:
    """Make a run directory with a new, unique id, with everything that `RunPaths.directories` names, all with mode
    0700; for an `array`, with the directories that its elements share. Return its paths.

    With a `runs_dir` (a compute's own), the directory is made there and `<home>/runs/<id>` links to it. Raise
    StorageError if the directory cannot be made, or if others could replace it; nothing is left behind then.
    """
    home_runs = runs_link_dir(home)
    target_dir = os.path.abspath(runs_dir) if runs_dir else home_runs
    try:
        make_private_directory(home_runs, follow=True)
        if runs_dir:
            require_shared_directory(target_dir)
    except OSError as error:
        raise storage_error(error, error.filename or target_dir) from None
    linked = bool(runs_dir) and os.path.realpath(target_dir) != os.path.realpath(home_runs)
    for _ in range(_ATTEMPTS):
        run_id = new_run_id(now(), random)
        root = os.path.join(target_dir, run_id)
        if not _make_exclusively(root):
            continue
        paths = RunPaths(root)
        try:
            if linked and not _link_exclusively(root, os.path.join(home_runs, run_id)):
                os.rmdir(root)
                continue
            _fill(paths, paths.common_directories() if array else paths.directories())
        except OSError as error:
            discard_run(home, paths)
            raise storage_error(error, error.filename2 or error.filename or root) from None
        return paths
    raise StorageError(f"no free run id after {_ATTEMPTS} attempts", target_dir, "is the machine's clock stuck?")


def discard_run(home: str, paths: RunPaths) -> None:
    """Remove the directory of a run that was never submitted, and its link in the home. Safe to repeat: what is already
    gone is no error."""
    import shutil

    link = os.path.join(runs_link_dir(home), paths.run_id)
    if os.path.islink(link) and os.readlink(link) == paths.root:
        try_unlink(link)
    shutil.rmtree(paths.root, ignore_errors=True)


def _fill(paths: RunPaths, directories: list[str]) -> None:
    for directory in directories:
        os.mkdir(directory, 0o700)
    for name, target in (("outputs", paths.outputs), ("logs", paths.user_logs)):
        link = os.path.join(paths.code, name)
        try:
            os.symlink(os.path.join("..", os.path.basename(target)), link)
        except (OSError, NotImplementedError):
            os.mkdir(link, 0o700)


def _make_exclusively(path: str) -> bool:
    """Make the directory `path` with mode 0700 and return True; return False if it exists already. Raise StorageError
    if it cannot be made."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise storage_error(error, error.filename or path) from None
    drop_access_lists(path)
    return True


def _link_exclusively(target: str, link: str) -> bool:
    try:
        os.symlink(target, link)
    except FileExistsError:
        return False
    return True
