"""Functions that find out which process logs with MLflow, and where it may write.

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
    """Return whether this process has rank 0 in every rank variable that is set. So the ranks of a launcher inside a
    rank are distinguished, too."""
    return all(os.environ.get(name, "0") in ("", "0") for name in _RANKS)


@lru_cache(maxsize=None)
def private_root() -> str:
    """Return the path of a temporary directory for this process's MLflow files, which is removed at the end of the
    process. Later calls return the same one."""
    path = tempfile.mkdtemp(prefix="worldsize-mlflow-")
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def claim(run_id: str) -> bool:
    """Claim the id of an MLflow run for this process, by creating a file in the attempt's directory `metrics/`. Return
    whether it succeeded; False if the id has been claimed in this attempt. The file contains the time of the claim, by
    which the reader distinguishes attempts. If the disk refuses, the id counts as claimed by this process."""
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
        return True  # the claim cannot be recorded: each start is like the first
    return True


def _make_directory(path: str) -> None:
    mode = os.stat(os.path.dirname(path)).st_mode & 0o777
    try:
        os.mkdir(path, mode)
        os.chmod(path, mode)
    except FileExistsError:
        pass  # the agent or another rank has created it


def tell(text: str) -> None:
    """Write `text` as a line of worldsize's MLflow plug-in to stderr, if possible."""
    try:
        sys.stderr.write(f"worldsize: MLflow: {text}\n")
    except Exception:  # noqa: BLE001  a script may have replaced stderr by any object
        pass
