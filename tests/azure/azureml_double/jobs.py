"""Jobs: what was asked for, and what has become of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from azureml_double.options import ARTIFACT_STORE, BLOB_STORE, scope
from azureml_double.times import now
from azureml_double.web import Refusal

OVER = ("Completed", "Failed", "Canceled")
_MAY_CHANGE = ("tags", "description", "displayName", "isArchived", "properties")


class Job:
    """name, properties   as it was put
    status      NotStarted Queued Preparing Running Finalizing, CancelRequested, Completed Failed Canceled
    states      each status it had, with the time it came
    error       the service's, of a failed one
    cancelled   set when somebody, or its time limit, has asked for its end
    """

    def __init__(self, name: str, properties: dict[str, Any]) -> None:
        self.name, self.properties = name, properties
        self.created = now()
        self.states: list[tuple[str, str]] = [("NotStarted", self.created)]
        self.error: dict[str, Any] | None = None
        self.reason = ""
        self.cancelled = threading.Event()
        self._changed = threading.Condition()

    @property
    def status(self) -> str:
        return self.states[-1][0]

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    def enter(self, status: str) -> None:
        """A job that is over stays it; one that is being cancelled goes on to its end alone."""
        with self._changed:
            stopping = self.status == "CancelRequested" and status not in OVER
            if not self.is_over and not stopping and self.status != status:
                self.states.append((status, now()))
                self._changed.notify_all()

    def fail(self, code: str, message: str) -> None:
        self.error = {"code": code, "message": message, "details": []}
        self.enter("Failed")

    def cancel(self, reason: str) -> None:
        """A word to the runner; nothing if it is over."""
        self.reason = self.reason or reason
        self.enter("CancelRequested")
        self.cancelled.set()

    def time_of(self, *statuses: str) -> str | None:
        return next((time for status, time in self.states if status in statuses), None)

    @property
    def instances(self) -> int:
        return int((self.properties.get("resources") or {}).get("instanceCount") or 1)

    @property
    def experiment(self) -> str:
        return str(self.properties.get("experimentName") or "Default")

    @property
    def artifacts(self) -> str:
        """The prefix of its logs and `./outputs`, in the artifact store."""
        return "ExperimentRun/dcid.%s" % self.name

    def output(self, name: str) -> tuple[str, str]:
        """The datastore and the prefix of a named output."""
        uri = (self.properties.get("outputs") or {}).get(name, {}).get("uri")
        if uri:
            return datastore_path(str(uri).replace("${{name}}", self.name))
        return BLOB_STORE, "azureml/%s/%s/" % (self.name, name)

    def resource(self, studio: str) -> dict[str, Any]:
        """As the service shows it."""
        default = {
            "jobOutputType": "uri_folder",
            "uri": "azureml://datastores/%s/%s" % (ARTIFACT_STORE, self.artifacts),
            "mode": "ReadWriteMount",
        }
        services = {
            "Tracking": {"jobServiceType": "Tracking", "endpoint": "azureml://%s/mlflow/v1.0" % studio},
            "Studio": {"jobServiceType": "Studio", "endpoint": "https://%s/runs/%s" % (studio, self.name)},
        }
        properties = {
            **self.properties,
            "experimentName": self.experiment,
            "displayName": self.properties.get("displayName") or self.name,
            "status": self.status,
            "services": {**services, **(self.properties.get("services") or {})},
            "outputs": {**(self.properties.get("outputs") or {}), "default": default},
        }
        return {
            "id": "%s/jobs/%s" % (scope(), self.name),
            "name": self.name,
            "type": "Microsoft.MachineLearningServices/workspaces/jobs",
            "properties": properties,
            "systemData": {"createdAt": self.created, "createdBy": "double", "createdByType": "User"},
        }


class Jobs:
    """All, in the order they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def get(self, name: str) -> Job:
        found = self._jobs.get(name)
        if found is None:
            raise Refusal(404, "UserError", "Run %s not found" % name)
        return found

    def put(self, name: str, properties: dict[str, Any]) -> tuple[Job, bool]:
        """The job, and whether it is new. One that is there may change in its words alone; else Refusal."""
        with self._lock:
            job = self._jobs.get(name)
            if job is None:
                job = self._jobs[name] = Job(name, properties)
                return job, True
            for key, value in properties.items():
                if key not in _MAY_CHANGE and job.properties.get(key) != value and key not in ("status", "services"):
                    text = (
                        "A job with this name already exists. If you are trying to create a new job, use another name."
                    )
                    raise Refusal(400, "UserError", text)
            self.change(job, properties)
            return job, False

    def change(self, job: Job, properties: Mapping[str, Any]) -> None:
        """What may change of it; tags and properties are merged."""
        for key in _MAY_CHANGE:
            value = properties.get(key)
            if isinstance(value, dict):
                job.properties[key] = {**(job.properties.get(key) or {}), **value}
            elif value is not None:
                job.properties[key] = value

    def list(self) -> list[Job]:
        """The newest first."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    def remove(self, name: str) -> None:
        with self._lock:
            self._jobs.pop(name, None)


def datastore_path(uri: str) -> tuple[str, str]:
    """The datastore and the path of `azureml://datastores/NAME/paths/PATH`, in its long form, too.

    Raises Refusal if it is none.
    """
    before, _, after = uri.partition("datastores/")
    name, _, path = after.partition("/")
    if not before.startswith("azureml://") or not name:
        raise Refusal(400, "UserError", "The double reads no data at %s." % uri)
    return name, path.removeprefix("paths/")
