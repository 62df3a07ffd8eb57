"""What this machine must have for a cluster, and what it tells about itself."""

from __future__ import annotations

import functools
import os
import re
import shutil
import socket
import subprocess
import sys

from slurm import groups
from slurm.config import Machine

PROGRAMS = {
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "sbatch": "slurm-wlm",
    "munged": "munge",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
}
ACCOUNTING = ("slurmdbd", "mariadbd", "mariadb-install-db")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENVIRON = {"PATH": PATH, "LANG": "C.UTF-8"}
HIDDEN = ("/tmp", "/dev/shm")
REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@functools.cache
def missing(accounting: bool = True) -> tuple[str, ...]:
    """What stands in the way of a cluster here, in words; empty if nothing does."""
    needed = [program for program in PROGRAMS if accounting or program not in ACCOUNTING]
    packages = {PROGRAMS[program] for program in needed if shutil.which(program, path=PATH) is None}
    words = ["package %s is not installed" % name for name in sorted(packages)]
    if not os.path.exists("/etc/hosts"):
        words.append("there is no /etc/hosts, over which the nodes' own could be laid")
    if os.geteuid() != 0:
        words.append("not root, and every node is made of namespaces")
    elif not words and not _may_unshare():
        words.append("this machine does not let root make namespaces and bridges (a container without privileges?)")
    return tuple(words)


def _may_unshare() -> bool:
    script = "ip link add probe0 type bridge && ip link add probe1 type veth peer name probe2"
    command = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "sh", "-c", script]
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def slurm_version() -> tuple[int, int]:
    words = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True, env=ENVIRON).stdout
    found = re.search(r"(\d+)\.(\d+)", words)
    if found is None:
        raise OSError("slurmctld -V says %r" % words)
    return int(found[1]), int(found[2])


@functools.cache
def hierarchy() -> groups.Hierarchy | None:
    """Where nodes get control groups; None: they have none. Before 23.02 they go without, so both ways are tested."""
    return groups.here() if slurm_version() >= (23, 2) else None


def real_topology() -> str:
    """This machine's CPUs as slurm.conf has them."""
    words = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True, env=ENVIRON).stdout
    kept = ("CPUs=", "Boards=", "SocketsPerBoard=", "CoresPerSocket=", "ThreadsPerCore=")
    return " ".join(word for word in words.split() if word.startswith(kept))


def facts() -> Machine:
    found = hierarchy()
    return Machine(socket.gethostname(), slurm_version(), real_topology(), found.version if found else 0)


def own_folders() -> list[str]:
    """What a rank of the tests runs from."""
    return [sys.prefix, sys.base_prefix, REPOSITORY]


def hidden(path: str) -> bool:
    """Whether the nodes' own /tmp and /dev/shm would hide it."""
    return any(path == root or path.startswith(root + "/") for root in HIDDEN)


def shown() -> set[str]:
    """What the nodes see in their own /tmp from the start: where the tests themselves lie there, that."""
    return {path.split("/")[2] for path in own_folders() if path.startswith("/tmp/")}
