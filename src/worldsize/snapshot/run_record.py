"""The record of a run's origin in `record.json`: user, command, host, time, versions and code, with secrets masked."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from worldsize.snapshot.git import read_git
from worldsize.trust.owners import login_name
from worldsize.trust.secrets import MASK, mask, mask_argv, mask_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACKAGES = frozenset(
    (
        *("torch", "torchvision", "torchaudio", "triton", "tensorflow", "keras", "jax", "jaxlib", "flax", "numpy"),
        *("scipy", "pandas", "scikit_learn", "transformers", "datasets", "accelerate", "deepspeed", "lightning"),
        *("pytorch_lightning", "mpi4py", "horovod", "ray", "mlflow", "nvidia_nccl_cu11", "nvidia_nccl_cu12"),
    )
)
RECORD_VERSION = 1
_SITES = ("site-packages", "dist-packages")


def make_record(
    version: str,
    job: Mapping[str, Any],
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: str,
    code_dir: str,
    code_digest: str | None,
    now: float,
    shared: bool = False,
    secrets: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the content of a run's record.json as a mapping of JSON values: user, command, host, time, versions and
    code, with secrets masked. `job` is the resolved job, `now` the time in Unix seconds. Starts no process.

    With `shared`, the record is without the user's environment, which is private. `secrets` are names of variables that
    are masked independently of their form.
    """
    system = os.uname()
    is_local = job.get("compute") == "local"  # other computes' nodes are unknown before they start
    record = {
        "version": RECORD_VERSION,
        "worldsize": version,
        "python": {
            "version": sys.version.split()[0],
            "executable": sys.executable,
            "packages": installed_packages(sys.path),
        },
        "platform": f"{system.sysname} {system.release} {system.machine}",
        "host": system.nodename,
        "nodes": {system.nodename: job.get("resources", {}).get("instance_count", 1)} if is_local else None,
        "user": login_name(os.geteuid()) or environ.get("USER") or str(os.geteuid()),
        "pid": os.getpid(),
        "created": now,
        "argv": mask_argv(argv),
        "cwd": cwd,
        "code": {"directory": code_dir, "digest": code_digest},
        "git": read_git(code_dir),
        "job": mask_tree(job),
    }
    if not shared:
        record["environment"] = {
            name: MASK if name in secrets else mask(name, value) for name, value in sorted(environ.items())
        }
    return record


def installed_packages(path: Sequence[str]) -> dict[str, str]:
    """Return the versions of the Python packages that results most depend on, by package name, read from the names of
    directories on `path`, a Python search path.

    Nothing is imported or opened. Each place is listed once. If a package is in several places, the first on the path
    counts, as for an import.
    """
    found: dict[str, str] = {}
    for place in path:
        try:
            names = os.listdir(place) if place.endswith(_SITES) else ()
        except OSError:
            continue  # a place that is missing or unreadable
        for entry in names:
            if entry.endswith(".dist-info"):
                name, _, version = entry[: -len(".dist-info")].partition("-")
                if name.lower() in _PACKAGES:
                    found.setdefault(name.lower(), version)
    return dict(sorted(found.items()))
