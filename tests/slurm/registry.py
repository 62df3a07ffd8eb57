"""Which clusters there are on this machine: one locked file per cluster, whose name is the number of its network.

The cluster's own process 1 holds the lock, so a file that can be locked belongs to a cluster that is gone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

from slurm import groups
from slurm.config import Network
from slurm.processes import start_time
from slurm.reach import MARK

CLAIMS = "/run/worldsize-slurm"
NUMBERS = 512


class Claim(NamedTuple):
    """A number that is ours, as long as `descriptor` is open somewhere."""

    number: int
    path: str
    descriptor: int


class Known(NamedTuple):
    """A cluster that left a claim. `owner` is None for one that nobody's life is bound to."""

    number: int
    path: str
    folder: str
    owner: tuple[int, str] | None
    alive: bool

    @property
    def orphaned(self) -> bool:
        """Whether it may be ended: it is dead already, or its owner is."""
        return not self.alive or (self.owner is not None and start_time(self.owner[0]) != self.owner[1])


def _lock(path: str, create: bool) -> int | None:
    """The file, locked; None if someone else holds it or it is not there."""
    try:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None


def _routed(number: int) -> bool:
    """Whether this machine already uses that network for something."""
    prefix = bytes(int(part) for part in Network(number).prefix.split("."))
    wanted = "%08X" % int.from_bytes(prefix + b"\0", "little")
    with open("/proc/net/route", encoding="ascii") as file:
        return any(line.split()[1] == wanted for line in file.readlines()[1:])


def claim() -> Claim:
    os.makedirs(CLAIMS, exist_ok=True)
    for number in range(NUMBERS):
        path = os.path.join(CLAIMS, str(number))
        descriptor = _lock(path, create=True)
        if descriptor is None:
            continue
        if os.fstat(descriptor).st_size == 0:
            if not _routed(number):
                return Claim(number, path, descriptor)
            os.unlink(path)
        os.close(descriptor)
    raise OSError("all %d test networks are taken" % NUMBERS)


def drop(claim: Claim) -> None:
    """Gives a number back; its descriptor stays open."""
    if os.path.exists(claim.path) and os.fstat(claim.descriptor).st_ino == os.stat(claim.path).st_ino:
        os.unlink(claim.path)


def write(claim: Claim, folder: str, owner: int | None) -> None:
    text = json.dumps({"folder": folder, "owner": owner and [owner, start_time(owner)]})
    os.pwrite(claim.descriptor, text.encode(), 0)


def known() -> Iterator[Known]:
    if not os.path.isdir(CLAIMS):
        return
    for name in sorted(os.listdir(CLAIMS), key=int):
        path = os.path.join(CLAIMS, name)
        descriptor = _lock(path, create=False)
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            continue
        finally:
            if descriptor is not None:
                os.close(descriptor)
        facts: dict[str, Any] = json.loads(text) if text else {"folder": "", "owner": None}
        owner = facts["owner"]
        yield Known(int(name), path, facts["folder"], owner and (owner[0], owner[1]), descriptor is None)


def forget(cluster: Known) -> None:
    """Removes what a dead cluster left; does nothing to a living one."""
    descriptor = _lock(cluster.path, create=False)
    if descriptor is None:
        return
    link = Network(cluster.number).link
    if os.path.exists("/sys/class/net/" + link):
        subprocess.call(["ip", "link", "delete", link], stderr=subprocess.DEVNULL)
    mark = os.path.join(cluster.folder, MARK)
    if cluster.folder and os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            groups.remove(json.load(file).get("group", ("", ""))[1])
        shutil.rmtree(cluster.folder, ignore_errors=True)
    os.unlink(cluster.path)
    os.close(descriptor)
