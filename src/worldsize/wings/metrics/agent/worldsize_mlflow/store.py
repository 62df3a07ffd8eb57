"""An MLflow file store for a run: one set of MLflow runs for all attempts, which rank 0 writes without delaying a step.

MLflow's own FileStore carries out all requests, with the root of this store. The root is the run's `mlruns` for rank 0,
and a private directory that is removed at the end of the process for another rank. Four things are different. Ids are
the same in every attempt and on every rank. Metrics are appended by a thread. A parameter may change, and the newest
value is kept. A disk that fails is reported once.

Standard library and MLflow (2.9 and later).
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import uuid

from .metrics import MetricWriter
from .place import claim, private_root, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RUNNING, _PARENT, _DEFAULT = 1, "mlflow.parentRunId", "0"
_MOST_RUNS = 10000
"""The most MLflow runs of one experiment that keep their ids from attempt to attempt; further ones get random ids."""


class RunStore:
    """The methods that override those of MLflow's FileStore, in the class that `make_store` creates."""

    root_directory: str
    artifact_root_uri: str

    def begin(self, shared: str) -> None:
        """Initialise the MLflow store. `shared` is the run's `mlruns`. If the store's root is another directory, it is
        private to this process."""
        self._shared = shared
        self._is_private = self.root_directory != shared
        self._infos: dict[str, Any] = {}
        self._experiments: dict[str, Any] = {}
        self._named: set[str] = set()
        self._opened: set[str] = set()
        self._told = False
        self._metrics = MetricWriter(self._is_private, self._fail)

    def _fail(self, error: OSError) -> None:
        if not self._told:
            self._told = True
            tell(f"{self.root_directory}: {error.strerror or error}: what is logged is lost")

    # Experiments and runs, which have the same ids in every attempt.

    def create_experiment(self, name: Any, artifact_location: Any = None, tags: Any = None) -> str:
        """Create an MLflow experiment, and return its id. Return the id of an active experiment of this name that an
        earlier attempt has created, if this process has not created one of that name before."""
        found = self.get_experiment_by_name(name)  # type: ignore[attr-defined]
        is_again = found is not None and found.lifecycle_stage == "active" and name not in self._named
        self._named.add(name)
        if is_again:
            return found.experiment_id  # type: ignore[no-any-return]
        place = None if self._is_private else artifact_location
        return super().create_experiment(name, place, tags)  # type: ignore[misc,no-any-return]

    def _create_experiment_with_id(self, name: Any, experiment_id: Any, artifact_uri: Any, tags: Any) -> Any:
        if experiment_id != _DEFAULT and not os.path.isdir(os.path.join(self.root_directory, experiment_id)):
            experiment_id = str(int(_digest(name)[:15], 16) + 1)
        return super()._create_experiment_with_id(name, experiment_id, artifact_uri, tags)  # type: ignore[misc]

    def create_run(self, experiment_id: Any, user_id: Any, start_time: Any, tags: Any, run_name: Any) -> Any:
        """Create an MLflow run in the experiment, or continue the one that an earlier attempt created at the same
        position, and return it. An MLflow run with a parent is always a new one."""
        if any(tag.key == _PARENT for tag in tags or ()):
            return super().create_run(experiment_id, user_id, start_time, tags, run_name)  # type: ignore[misc]
        experiment = experiment_id or _DEFAULT
        run_id = self._next_run_id(experiment)
        meta = os.path.join(self.root_directory, experiment, run_id, "meta.yaml")
        if os.path.isfile(meta):
            try:
                return self._go_on(run_id, tags or (), run_name)
            except Exception:  # noqa: BLE001  MLflow's own errors: a full disk has left the file empty
                os.unlink(meta)
        _ids.next = run_id
        try:
            return super().create_run(experiment_id, user_id, start_time, tags, run_name)  # type: ignore[misc]
        except OSError as error:
            self._move(error)
            _ids.next = run_id
            return super().create_run(experiment_id, user_id, start_time, tags, run_name)  # type: ignore[misc]
        finally:
            _ids.next = None

    def _next_run_id(self, experiment: str) -> str:
        """Return the first MLflow run id of the experiment that no process of this rank has claimed in this attempt; a
        random id if all are claimed. The ids are the same in every attempt."""
        for number in range(_MOST_RUNS):
            run_id = _digest("run", os.environ.get("WORLDSIZE_RUN_ID", ""), experiment, str(number))
            if run_id not in self._opened and (self._is_private or claim(run_id)):
                self._opened.add(run_id)
                return run_id
        return uuid.uuid4().hex

    def _go_on(self, run_id: str, tags: Any, run_name: Any) -> Any:
        info = self._get_run_info(run_id)
        if info.lifecycle_stage != "active":
            self.restore_run(run_id)  # type: ignore[attr-defined]
        self.update_run_info(run_id, _RUNNING, None, run_name)
        for tag in tags:
            self.set_tag(run_id, tag)  # type: ignore[attr-defined]
        return self.get_run(run_id)  # type: ignore[attr-defined]

    def _check_root_dir(self) -> None:
        if not os.path.isdir(self.root_directory):
            self._move(NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)))

    def _get_experiment_path(self, *words: Any, **named: Any) -> Any:
        self._check_root_dir()
        return super()._get_experiment_path(*words, **named)  # type: ignore[misc]

    def _get_experiment(self, *words: Any, **named: Any) -> Any:
        found = super()._get_experiment(*words, **named)  # type: ignore[misc]
        if found is not None:
            self._experiments[found.experiment_id] = found
        return found

    def _move(self, error: OSError) -> None:
        """Continue the MLflow store in a private directory, since the run's directory refuses writes with `error`, and
        report this once to stderr. The script does not notice this. Raise `error` if the store is private already."""
        if self._is_private:
            raise error
        self._fail(error)
        self.root_directory = private_root()
        self.trash_folder = os.path.join(self.root_directory, ".trash")
        os.makedirs(self.trash_folder, exist_ok=True)
        self._is_private = self._metrics.is_private = True
        for experiment in list(self._experiments.values()):
            self._place_experiment(experiment)
        for info in list(self._infos.values()):
            self._place_run(info)

    def _place_run(self, info: Any) -> None:
        for name in ("metrics", "params", "artifacts", "tags"):
            path = os.path.join(self.root_directory, info.experiment_id, info.run_id, name)
            os.makedirs(path, exist_ok=True)
        self._overwrite_run_info(info)

    def _place_experiment(self, experiment: Any) -> None:
        if os.path.isdir(os.path.join(self.root_directory, experiment.experiment_id)):
            return
        os.makedirs(os.path.join(self.root_directory, experiment.experiment_id))
        self._create_experiment_with_id(experiment.name, experiment.experiment_id, None, None)

    # The cached information about runs, so that a logged value does not read the disk again.

    def _get_run_info(self, run_uuid: Any) -> Any:
        if run_uuid not in self._infos:
            try:
                self._infos[run_uuid] = super()._get_run_info(run_uuid)  # type: ignore[misc]
            except Exception:  # MLflow's own error if there is no such run
                if not self._is_private or not self._adopt(run_uuid):
                    raise
        return self._infos[run_uuid]

    def _adopt(self, run_id: str) -> bool:
        """Copy to this private store the information about an MLflow run that rank 0 has created, whose id rank 0 has
        sent to this rank. Return whether there is such a run."""
        if not os.path.isdir(self._shared):
            return False
        shared = type(self).__bases__[1]("file://" + _quoted(self._shared))
        try:
            info = shared._get_run_info(run_id)
            self._place_experiment(shared.get_experiment(info.experiment_id))
        except Exception:  # noqa: BLE001  MLflow's own errors: the caller raises that of its own store
            return False
        self._place_run(info)
        return True

    def _overwrite_run_info(self, run_info: Any, *others: Any, **named: Any) -> None:
        self._infos[run_info.run_id] = run_info
        self._try("_overwrite_run_info", run_info, *others, **named)

    def update_run_info(self, run_id: Any, *words: Any, **named: Any) -> Any:
        """Update the information about an MLflow run (status, end time, name) as MLflow does, after writing the metrics
        that were logged before."""
        self._metrics.write()
        return super().update_run_info(run_id, *words, **named)  # type: ignore[misc]

    def delete_experiment(self, experiment_id: Any) -> None:
        """Delete an MLflow experiment as MLflow does, and forget the cached information about runs, so that it is read
        again."""
        self._infos.clear()
        super().delete_experiment(experiment_id)  # type: ignore[misc]

    def restore_experiment(self, experiment_id: Any) -> None:
        """Restore a deleted MLflow experiment as MLflow does, and forget the cached information about runs, so that it
        is read again."""
        self._infos.clear()
        super().restore_experiment(experiment_id)  # type: ignore[misc]

    # The writing of values, tags and parameters.

    def _log_run_metric(self, run_info: Any, metric: Any) -> None:
        path = os.path.join(self.root_directory, run_info.experiment_id, run_info.run_id, "metrics", metric.key)
        dataset = [getattr(metric, name, None) for name in ("dataset_name", "dataset_digest")]
        also = " {} {}".format(*dataset) if None not in dataset else ""
        self._metrics.add(path, f"{metric.timestamp} {metric.value} {metric.step}{also}\n")

    def _get_run_files(self, run_info: Any, resource_type: Any) -> Any:
        if resource_type == "metric":
            self._metrics.write()
        return super()._get_run_files(run_info, resource_type)  # type: ignore[misc]

    def _validate_new_param_value(self, *_: Any, **__: Any) -> None:
        """Accept any new value of an MLflow parameter, where MLflow raises an error for a changed one: an attempt may
        have other parameters than the one before, and the newest value is kept."""

    def _log_run_param(self, run_info: Any, param: Any) -> None:
        self._try("_log_run_param", run_info, param)

    def _set_run_tag(self, run_info: Any, tag: Any) -> None:
        self._try("_set_run_tag", run_info, tag)

    def set_experiment_tag(self, experiment_id: Any, tag: Any) -> None:
        """Set a tag of an MLflow experiment as MLflow does. An error of the disk is reported to stderr and not
        raised."""
        self._try("set_experiment_tag", experiment_id, tag)

    def log_inputs(self, *words: Any, **named: Any) -> None:
        """Log the inputs (datasets, models) of an MLflow run as MLflow does. An error of the disk is reported to stderr
        and not raised."""
        self._try("log_inputs", *words, **named)

    def log_outputs(self, *words: Any, **named: Any) -> None:
        """Log the outputs of an MLflow run as MLflow does. An error of the disk is reported to stderr and not
        raised."""
        self._try("log_outputs", *words, **named)

    def _try(self, name: str, *words: Any, **named: Any) -> None:
        try:
            getattr(super(), name)(*words, **named)
        except OSError as error:
            self._fail(error)


class _Ids:
    """A substitute for the module `uuid` in MLflow's file store, with which the next id of a thread can be set."""

    def __init__(self) -> None:
        self._next = threading.local()

    next = property(lambda self: getattr(self._next, "id", None), lambda self, value: setattr(self._next, "id", value))

    def uuid4(self) -> uuid.UUID:
        run_id, self.next = self.next, None
        return uuid.UUID(hex=run_id) if run_id else uuid.uuid4()

    def __getattr__(self, name: str) -> Any:
        return getattr(uuid, name)


_ids = _Ids()


def make_store(root: str, shared: str, uri: str) -> Any:
    """Return an MLflow file store with the directory `root`, for a run whose `mlruns` is `shared`, which MLflow knows
    as `uri`. Raise OSError if the root cannot be written."""
    from mlflow.store.tracking import file_store

    file_store.uuid = _ids
    os.makedirs(os.path.join(root, ".trash"), exist_ok=True)
    store: Any = type("RunFileStore", (RunStore, file_store.FileStore), {})("file://" + _quoted(root), uri)
    store.begin(shared)
    if not os.path.isdir(os.path.join(root, _DEFAULT)):
        store._create_experiment_with_id("Default", _DEFAULT, None, None)
    return store


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:32]


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
