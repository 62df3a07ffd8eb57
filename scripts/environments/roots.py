"""The root directories of other Debian releases, in which the tests run on another release of Slurm.

Each lies in the cache beside the environments, and is made once by debootstrap from the archive of this machine's apt.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

from scripts.environments.cache import cache_directory, obtain
from scripts.environments.recipes import ROOT

RELEASES = {"24.11": "trixie"}
"""The release of Debian that has a release of Slurm."""

INPUTS = (
    "scripts/environments/make-debian.sh",
    "scripts/environments/bootstrap.sh",
    "scripts/system-packages.sh",
)
"""What decides what is in a root."""

ENTER = "scripts/environments/enter-root.sh"
DISTRIBUTION = ("/bin", "/sbin", "/lib", "/usr", "/etc", "/var", "/run", "/boot")
"""What a process in a root sees of that; everything else is this machine's."""

CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
"""Variables that name a file of certificates: where a network has its own, no other file knows its servers."""

STARTS = "import bz2, ctypes, lzma, readline, sqlite3, ssl, uuid"


class NotPossible(Exception):
    """What this machine lacks for a root."""


def obtain_root(slurm: str) -> str:
    """The root with this release of Slurm, made unless it is in the cache. NotPossible: what is lacking."""
    digest = hashlib.sha256()
    for name in INPUTS:
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    path = os.path.join(cache_directory(), "roots", "%s-%s" % (RELEASES[slurm], digest.hexdigest()[:16]))
    obtain(path, lambda target: _build(slurm, target), _starts)
    return path


def _starts(root: str) -> bool:
    command = ["chroot", root, "slurmctld", "-V"]
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def _build(slurm: str, target: str) -> None:
    said = "==> a root of Debian %s with Slurm %s: 1.3 GB and four minutes, once; its output in %s.log"
    print(said % (RELEASES[slurm], slurm, target), flush=True)
    os.makedirs(target)
    with open(target + ".log", "w+", encoding="utf-8", errors="replace") as log:
        command = ["sh", os.path.join("scripts", "environments", "make-debian.sh"), target, RELEASES[slurm]]
        code = subprocess.call(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        log.seek(0)
        last = log.read().strip().splitlines()[-1:]
    if code:
        raise NotPossible(last[0] if last else "scripts/environments/make-debian.sh failed with code %d" % code)


def inside(root: str) -> list[str]:
    """What stands in front of a command that shall run in a root. NotPossible: this Python does not start there."""
    entering = ["env", "SEEN=" + ":".join(seen()), "sh", os.path.join(ROOT, ENTER), root]
    tried = subprocess.run([*entering, sys.executable, "-c", STARTS], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise NotPossible("%s does not run there: %s" % (sys.executable, tried.stderr.strip().rpartition("\n")[2]))
    return entering


def seen() -> list[str]:
    """Where this Python, this checkout, the environments and the certificates that are asked for lie, as far as a root
    has its own files there."""
    if sys.base_prefix == "/usr":
        name = "python%d.%d" % sys.version_info[:2]
        base = ["/usr/bin/python3", "/usr/bin/" + name, "/usr/lib/" + name]  # an environment names the first
    else:
        base = [sys.base_prefix]
    certificates = {os.path.realpath(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)}
    needed = (*base, sys.prefix, ROOT, os.path.join(cache_directory(), "environments"), *sorted(certificates))
    return [path for path in needed if path.startswith(tuple(name + "/" for name in DISTRIBUTION))]
