"""The facts about this machine, this account and this installation that need no other program."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from worldsize.agent.machine.mount_table import mount_of_path, read_mounts
from worldsize.agent.machine.node_files import names_in
from worldsize.common.named_tuple import NamedTuple
from worldsize.extras import EXTRAS
from worldsize.trust.directories import is_node_local
from worldsize.trust.links import with_parents
from worldsize.version import VERSION

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The directory of the package `worldsize`."""


class InstallationFacts(NamedTuple):
    """The installation of worldsize: its version, how and where it is installed, its Python, and the versions of the
    packages of extras by name; "" for a package that is missing."""

    version: str
    kind: str
    place: str
    python: str
    executable: str
    packages: Mapping[str, str]


class DirectoryFacts(NamedTuple):
    """A directory that worldsize uses, or would make.

    path      as configured
    exists    whether it exists; the rest is then about it, else about the nearest directory above it that exists
    writable  whether this user may write there
    kind      the type of its file system, such as "nfs4"; "" if it is not known
    local     whether every machine has its own: /tmp and the like
    free      free bytes; None if not known
    links     the reason why a hard link could not be made; "" if it could, or was not tried
    locks     the reason why a file could not be locked; "" if it could, or was not tried
    """

    path: str
    exists: bool = False
    writable: bool = False
    kind: str = ""
    local: bool = False
    free: int | None = None
    links: str = ""
    locks: str = ""


class LimitFacts(NamedTuple):
    """The limits of processes: (soft, hard), -1 for no limit; the bytes of /dev/shm, None without one; the reason why
    the loopback interface cannot be used, "" if it can."""

    open_files: tuple[int, int]
    processes: tuple[int, int]
    shared_memory: int | None
    loopback: str


def installation_facts() -> InstallationFacts:
    kind, place = installation_kind(_PACKAGE, sys.prefix, sys.base_prefix)
    names = dict.fromkeys(name for packages in EXTRAS.values() for name in packages)
    versions = {name: _package_version(name) for name in names}
    if not versions["uv"] and shutil.which("uv"):  # it is a program
        versions["uv"] = "a program on PATH"
    return InstallationFacts(VERSION, kind, place, platform.python_version(), sys.executable, versions)


def installation_kind(package: str, prefix: str, base: str) -> tuple[str, str]:
    """Return how worldsize is installed, in words, and the place. `package` is the directory of its package; `prefix`
    and `base` are those of its Python, and of the Python that this one was made from."""
    if os.path.isfile(os.path.join(prefix, "PEX-INFO")):
        return "one file (zipapp)", prefix
    if "/pipx/" in prefix:
        return "by pipx", prefix
    if "/uv/tools/" in prefix:
        return "by uv tool", prefix
    root = os.path.dirname(os.path.dirname(package))
    if os.path.isfile(os.path.join(root, "pyproject.toml")):
        return "a checkout", root
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return "in a conda environment", prefix
    return ("in a virtual environment" if prefix != base else "in Python's own packages"), prefix


def _package_version(name: str) -> str:
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError, OSError):
        return ""


def begin_all(functions: Mapping[str, Callable[[], Any]]) -> Callable[[float], dict[str, Any]]:
    """Call all `functions`, each in a thread of its own. Return a function that waits until a deadline (of
    time.monotonic) and returns their results by the same names; None for those that do not return in time, as on a file
    server that does not answer, whose threads continue. It raises an exception that a function has raised."""
    found: dict[str, Any] = {}
    errors: list[BaseException] = []

    def work(name: str) -> None:
        try:
            found[name] = functions[name]()
        except BaseException as error:  # noqa: BLE001  (raised again by the caller)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in functions]
    for thread in threads:
        thread.start()

    def results(deadline: float) -> dict[str, Any]:
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if errors:
            raise errors[0]
        return {name: found.get(name) for name in functions}

    return results


def directory_facts(path: str, mounts: str = "/") -> DirectoryFacts:
    """Return the facts about a directory. If it exists, a hard link and a lock are tried in a new directory in it,
    which is removed again. Never raise. `mounts` is the root of the mount table."""
    at = next((each for each in with_parents(os.path.abspath(path)) if os.path.isdir(each)), "/")
    exists = os.path.abspath(path) == at
    real = os.path.realpath(at)
    mount = mount_of_path(real, read_mounts(mounts))
    facts = DirectoryFacts(
        path, exists, os.access(at, os.W_OK | os.X_OK), mount.kind if mount else "", is_node_local(path), _free(at)
    )
    if not (exists and facts.writable):
        return facts
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=at) as directory:
            return facts._replace(links=_reason(_link, directory), locks=_reason(_lock, directory))
    except OSError as error:  # such as a full disk
        return facts._replace(writable=False, links=error.strerror or str(error))


def _free(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _reason(function: Callable[[str], None], directory: str) -> str:
    try:
        function(directory)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _link(directory: str) -> None:
    first = os.path.join(directory, "first")
    with open(first, "x"):
        pass
    os.link(first, os.path.join(directory, "second"))


def _lock(directory: str) -> None:
    with open(os.path.join(directory, "lock"), "x") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def limit_facts(shared_memory: str = "/dev/shm") -> LimitFacts:  # nosec B108  # the place of shared memory
    try:
        room: Any = os.statvfs(shared_memory)
    except OSError:
        room = None
    return LimitFacts(
        resource.getrlimit(resource.RLIMIT_NOFILE),
        resource.getrlimit(resource.RLIMIT_NPROC),
        room.f_blocks * room.f_frsize if room else None,
        _loopback_fault(),
    )


def key_files(home: str) -> list[str]:
    """Return the names of the private keys in ~/.ssh, as ssh looks for them."""
    return [name for name in names_in(os.path.join(home, ".ssh")) if re.fullmatch(r"id_[a-z0-9_]+", name)]


def gpu_devices(directory: str = "/dev") -> list[str]:
    """Return the names of the devices of NVIDIA's and AMD's drivers."""
    return [name for name in names_in(directory) if re.fullmatch(r"nvidia\d+|kfd", name)]


def _loopback_fault() -> str:
    """Connect to this process by the loopback interface. Return the reason why that fails; "" if it works."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname(), 1.0).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
