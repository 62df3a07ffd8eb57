"""The programs that are executed to find out what this machine has, by names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.plan.setup_script import MODULE_LINES

_PYTHON = "import sys; print('%d.%d.%d' % sys.version_info[:3]); print(sys.executable)"
_NAME = "import socket; name = socket.gethostname(); print(name); print(socket.gethostbyname(name))"
_MODULE = "\n".join((*MODULE_LINES, "type -t module; module --version 2>&1"))
_PARTITIONS = "%R|%a|%l|%D|%G"

ALONE: Mapping[str, Sequence[str]] = {
    "bash": ("bash", "--version"),
    "name": (sys.executable, "-I", "-S", "-c", _NAME),
    "ssh": ("ssh", "-V"),
    "mpirun": ("mpirun", "--version"),
    "nvidia-smi": ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"),
    "apptainer": ("apptainer", "--version"),
    "singularity": ("singularity", "--version"),
    "enroot": ("enroot", "version"),
    "docker": ("docker", "--version"),
    "podman": ("podman", "--version"),
    "modules": ("bash", "-c", _MODULE),
    "conda": ("conda", "--version"),
    "mamba": ("mamba", "--version"),
    "micromamba": ("micromamba", "--version"),
    "uv": ("uv", "--version"),
}
SLURM = ("sbatch", "srun", "squeue", "sacct", "scontrol", "sinfo")
"""The programs of Slurm that runs need; accounting may be missing."""


def commands(python_path: Sequence[str], user: str, environ: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Return the commands to execute, by names. `python_path` are the directories that a job's PATH begins with, and
    `user` is this user's login name."""
    asked = {
        **ALONE,
        **{name: (name, "--version") for name in SLURM},
        "ping": ("scontrol", "ping"),
        "partitions": ("sinfo", "--noheader", "--format", _PARTITIONS),
        "associations": ("sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}",
                         "format=account,partition,qos,defaultqos"),
        "account": ("sacctmgr", "--noheader", "--parsable2", "show", "user", user, "format=defaultaccount"),
        "srun-help": ("srun", "--help"),
    }  # fmt: skip
    places = os.pathsep.join((*python_path, environ.get("PATH", os.defpath)))
    try:
        asked["python"] = (os.path.abspath(find_program("python", {"PATH": places})), "-c", _PYTHON)
    except OSError:
        pass  # there is none
    if environ.get("SSH_AUTH_SOCK"):
        asked["ssh-add"] = ("ssh-add", "-l")
    return asked
