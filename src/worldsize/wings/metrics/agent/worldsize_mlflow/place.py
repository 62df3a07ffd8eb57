"""Which process it is that logs with MLflow, and where it may write.

Standard library only.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from functools import lru_cache

_RANKS = ("WORLDSIZE_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def is_first_rank() -> bool:
    """Return whether this process has rank 0 in every count that it knows: a launcher inside a rank counts for
    itself."""
    return all(os.environ.get(name, "0") in ("", "0") for name in _RANKS)


@lru_cache(maxsize=None)
def private_root() -> str:
    """Return a directory on the node that is gone after this process."""
    path = tempfile.mkdtemp(prefix="worldsize-mlflow-")
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def claim(run_id: str) -> bool:
    """Take the id for this process, once in an attempt, and write down when: the reader tells attempts apart by it. A
    disk that refuses has it taken."""
    attempt = os.environ.get("WORLDSIZE_ATTEMPT") or "0"
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT") or "0"
    folder = os.path.join(os.environ.get("WORLDSIZE_RUN_DIR", ""), "attempt-" + attempt, "metrics")
    try:
        _make_directory(folder)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        file = os.open(os.path.join(folder, f"mlflow-{run_id}-{restart}"), flags, os.stat(folder).st_mode & 0o666)
        with open(file, "w") as opened:
            opened.write(f"{time.time():.3f}\n")
    except FileExistsError:
        return False
    except OSError:
        return True  # nothing can be noted: each start is as the first
    return True


def _make_directory(path: str) -> None:
    mode = os.stat(os.path.dirname(path)).st_mode & 0o777
    try:
        os.mkdir(path, mode)
        os.chmod(path, mode)
    except FileExistsError:
        pass  # the agent, or another rank, has made it


def tell(text: str) -> None:
    """Write a line to stderr."""
    try:
        sys.stderr.write(f"worldsize: MLflow: {text}\n")
    except Exception:  # noqa: BLE001  whatever a script has put in the place of stderr
        pass
