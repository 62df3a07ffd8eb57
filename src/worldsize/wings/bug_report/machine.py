"""Versions, and facts of the machine on which the report is made."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.snapshot.run_record import installed_packages
from worldsize.version import VERSION

_PROGRAMS = ("python", "python3", "sbatch", "srun", "mpirun", "nvidia-smi", "apptainer", "uv", "git")
_LIMITS = {"open files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC, "memory": resource.RLIMIT_AS}


def machine_facts(directory: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return facts of this machine and its Python for a bug report, as JSON values: versions, packages, cores, memory,
    limits and programs. `directory` is the run's directory. Starts no process."""
    return {
        "worldsize": VERSION,
        "python": {
            "version": sys.version.split()[0],
            "executable": sys.executable,
            "packages": installed_packages(sys.path),
        },
        "system": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "cores": {"machine": os.cpu_count(), "usable": len(os.sched_getaffinity(0))},
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "free": _free(directory),
        "limits": {name: resource.getrlimit(number) for name, number in _LIMITS.items()},
        "programs": {name: shutil.which(name, path=environ.get("PATH")) for name in _PROGRAMS},
        "umask": _umask(),
    }


def _free(directory: str) -> dict[str, int] | None:
    """Return the free bytes and files of the file system that contains `directory`; None if they are not known."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return {"bytes": found.f_bavail * found.f_frsize, "files": found.f_favail}


def _umask() -> str:
    umask = os.umask(0o077)
    os.umask(umask)
    return f"{umask:03o}"
