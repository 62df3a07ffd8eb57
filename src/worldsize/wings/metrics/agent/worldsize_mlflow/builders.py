"""The functions that MLflow in a rank calls as a plug-in for `file:` (entry points in the run's `inrank/`). For the
`mlruns` of the run they return a store that all attempts share and that only rank 0 writes. For any other location they
return what MLflow itself has.

In a run this module is located in `worldsize_inrank/`, with its imports. It uses the standard library, and MLflow once
MLflow requests a store.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from .place import is_first_rank, private_root, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SCHEME = "file://"


def build_tracking_store(store_uri: str, artifact_uri: Any = None, **_: Any) -> Any:
    """Return MLflow's tracking store for `store_uri`. For the run's `mlruns`, rank 0 writes there and all other ranks
    write to a private directory. If rank 0 cannot write there, print a line to stderr and use a private directory, too.
    For any other URI, return MLflow's own FileStore."""
    from mlflow.store.tracking.file_store import FileStore

    if not _is_of_run(store_uri):
        return FileStore(store_uri, store_uri)
    from .store import make_store

    root = _path_of(store_uri)
    if not is_first_rank():
        return make_store(private_root(), root, store_uri)
    try:
        return make_store(root, root, store_uri)
    except OSError as error:
        tell(f"{root}: {error.strerror}: MLflow's log is not kept")
        return make_store(private_root(), root, store_uri)


def build_registry(store_uri: str, **_: Any) -> Any:
    """Return MLflow's model registry for `store_uri`. A rank other than 0 gets a private one in place of that of the
    run's `mlruns`."""
    from mlflow.store.model_registry.file_store import FileStore

    is_private = _is_of_run(store_uri) and not is_first_rank()
    return FileStore(_SCHEME + private_root() if is_private else store_uri)


def build_artifacts(artifact_uri: str, *others: Any, **named: Any) -> Any:
    """Return MLflow's artifact repository for `artifact_uri`. All ranks read the artifacts in the run's `mlruns`, and
    only rank 0 writes them: for other ranks, the methods that write do nothing."""
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

    repository = LocalArtifactRepository(artifact_uri, *others, **named)
    if _is_within(_path_of(artifact_uri), _runs_place()) and not is_first_rank():
        repository.log_artifact = repository.log_artifacts = _write_nothing
    return repository


def _write_nothing(*_: Any, **__: Any) -> None:
    """Do nothing in place of writing artifacts: ranks have equal artifacts, and their runs have the same name."""


def _runs_place() -> str:
    """Return the path of MLflow's file store `mlruns` in the directory of this worldsize run; "" outside a run."""
    root = os.environ.get("WORLDSIZE_RUN_DIR")
    return os.path.join(root, "mlruns") if root else ""


def _is_of_run(uri: str) -> bool:
    return _path_of(uri) == _runs_place() != ""


def _path_of(uri: str) -> str:
    return unquote(uri[len(_SCHEME) :]).rstrip("/") if uri.startswith(_SCHEME) else ""


def _is_within(path: str, folder: str) -> bool:
    return bool(folder) and (path + "/").startswith(folder + "/")
