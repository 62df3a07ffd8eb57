"""What MLflow in a rank finds as a plug-in for `file:` (entry points in the run's `inrank/`): for the `mlruns` of the
run a store that all attempts share and that rank 0 alone writes; for any other place what MLflow itself has.

In a run this lies in `worldsize_inrank/`, with what it imports. Standard library, and MLflow once it asks for a store.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

_RANKS = ("WORLDSIZE_RANK", "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_SCHEME = "file://"


def build_tracking_store(store_uri: str, artifact_uri: Any = None, **_: Any) -> Any:
    """The tracking store of this place."""
    from mlflow.store.tracking.file_store import FileStore

    if not _is_of_run(store_uri):
        return FileStore(store_uri, store_uri)
    from .mlflow_store import make_store

    root = _path_of(store_uri)
    if not is_first_rank():
        return make_store(private_root(), root, store_uri)
    try:
        return make_store(root, root, store_uri)
    except OSError as error:
        tell(f"{root}: {error.strerror}: nothing of MLflow's is kept")
        return make_store(private_root(), root, store_uri)


def build_registry(store_uri: str, **_: Any) -> Any:
    """The registry of models of this place: one of its own for a rank that writes nothing."""
    from mlflow.store.model_registry.file_store import FileStore

    is_private = _is_of_run(store_uri) and not is_first_rank()
    return FileStore(_SCHEME + private_root() if is_private else store_uri)


def build_artifacts(artifact_uri: str, *others: Any, **named: Any) -> Any:
    """The artifacts of this place: those of the run are read by all ranks and written by rank 0."""
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

    repository = LocalArtifactRepository(artifact_uri, *others, **named)
    if _is_within(_path_of(artifact_uri), _runs_place()) and not is_first_rank():
        repository.log_artifact = repository.log_artifacts = _write_nothing
    return repository


def _write_nothing(*_: Any, **__: Any) -> None:
    """Ranks have equal artifacts, and their runs one name."""


def is_first_rank() -> bool:
    """Whether this process has rank 0 in every count that it knows: a launcher inside a rank counts for itself."""
    return all(os.environ.get(name, "0") in ("", "0") for name in _RANKS)


@lru_cache(maxsize=None)
def private_root() -> str:
    """A directory on the node that is gone after this process."""
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
        return True
    return True


def _make_directory(path: str) -> None:
    mode = os.stat(os.path.dirname(path)).st_mode & 0o777
    try:
        os.mkdir(path, mode)
        os.chmod(path, mode)
    except FileExistsError:
        pass


def _runs_place() -> str:
    """The `mlruns` of this run; empty outside one."""
    root = os.environ.get("WORLDSIZE_RUN_DIR")
    return os.path.join(root, "mlruns") if root else ""


def _is_of_run(uri: str) -> bool:
    return _path_of(uri) == _runs_place() != ""


def _path_of(uri: str) -> str:
    return unquote(uri[len(_SCHEME) :]).rstrip("/") if uri.startswith(_SCHEME) else ""


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and (path + "/").startswith(folder + "/")


def tell(text: str) -> None:
    """Write a line to stderr."""
    try:
        sys.stderr.write(f"worldsize: MLflow: {text}\n")
    except Exception:  # noqa: BLE001  whatever a script has put in the place of stderr
        pass
