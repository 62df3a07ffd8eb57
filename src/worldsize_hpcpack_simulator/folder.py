"""The files of a simulator on disk: the share, and next to it the two files with which clients find the head node."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from worldsize.common.atomic_files import read_file
from worldsize.errors import ConfigError, UsageError
from worldsize.trust.directories import require_shared_directory
from worldsize.trust.documents import write_document
from worldsize_hpcpack_simulator.options import SimulatorOptions
from worldsize_hpcpack_simulator.scheduler.cluster import Cluster

MARK = "# Written by `worldsize simulate hpcpack`, which replaces it at each start and removes it when it ends."


class SimulatorPaths(NamedTuple):
    """The absolute paths of the shared directory, of `worldsize.toml`, and of the certificates to trust."""

    share: str
    config: str
    authority: str


@contextlib.contextmanager
def hold_share(share: str) -> Iterator[SimulatorPaths]:
    """Create the simulator's shared directory `share`, lock it against other simulators, and yield the paths of its
    files for a `with`. At its end worldsize.toml and the certificates are removed, and so is the share if it was
    created here and is empty. Raise ConfigError, UsageError if it cannot be used; then nothing was changed. Raise
    StorageError if other users could replace the two files."""
    where = os.path.dirname(share)
    place = SimulatorPaths(share, os.path.join(where, "worldsize.toml"), os.path.join(where, "hpcpack-ca.pem"))
    new = [path for path in (share, where) if not os.path.lexists(path)]
    try:
        require_shared_directory(where)
        os.makedirs(share, exist_ok=True)
        lock = os.open(share, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"the share is not a usable directory: {error.strerror}", share, "--share DIR") from None
    try:
        _lock(lock, place)
        try:
            yield place
        finally:
            _remove(os.unlink, place.config, place.authority)
    finally:
        os.close(lock)
        _remove(os.rmdir, *new)


def _remove(remove: Callable[[str], None], *paths: str) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            remove(path)


def _lock(lock: int, place: SimulatorPaths) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError("another simulator uses this share", place.share, "--share elsewhere") from None
    for path in (place.config, place.authority):
        if os.path.lexists(path) and not _is_ours(place.config):
            raise ConfigError("this file is not the simulator's", path, "--share elsewhere")


def _is_ours(path: str) -> bool:
    try:
        return read_file(path, len(MARK) + 1) == MARK.encode() + b"\n"
    except OSError:
        return False


def write_files(place: SimulatorPaths, authority: bytes, text: str) -> None:
    """Write the simulator's certificates `authority` and its worldsize.toml with the content `text`, each completely or
    not at all. Raise UsageError if they cannot be written."""
    for path, data in ((place.authority, authority), (place.config, text.encode())):
        try:
            write_document(path, data)
        except OSError as error:
            raise UsageError(f"it cannot be written: {error.strerror}", path, "--share DIR") from None


def configuration(place: SimulatorPaths, options: SimulatorOptions, url: str, cluster: Cluster) -> str:
    """Return the text of a worldsize.toml that makes the simulated cluster, whose head node is at `url`, the default
    compute. It contains no password."""
    node = options.at if cluster.isolated else cluster.link
    lines = [
        MARK,
        'default_compute = "hpcpack"',
        "",
        "[compute.hpcpack]",
        'type = "hpcpack"',
        f"url = {json.dumps(url)}",
        f"user = {json.dumps(options.account.name)}",
        f"ca_file = {json.dumps(place.authority)}",
        f"share = {{ head = {json.dumps(place.share)}, node = {json.dumps(node)} }}",
        *([f"gpus_per_node = {options.gpus}"] if options.gpus else []),
    ]
    return "\n".join(lines) + "\n"
