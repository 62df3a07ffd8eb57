"""What comes to a node from blobs, and what goes back to them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from azureml_double.jobs import Job, datastore_path
from azureml_double.options import ACCOUNT, ARTIFACT_STORE, CONTAINERS, scope
from azureml_double.web import Refusal

if TYPE_CHECKING:
    from azureml_double.service import Service

_MOUNTED = ("ReadWriteMount", "Mount", "")


class Data:
    """Of one job. Methods raise Refusal for what is not there."""

    def __init__(self, service: Service, job: Job) -> None:
        self._service, self._job = service, job

    def fetch_code(self, folder: str) -> None:
        """The snapshot, into a folder that is there."""
        code = self._job.properties.get("codeId")
        if code:
            name, _, version = str(code).partition("/codes/")[2].partition("/versions/")
            uri = self._service.assets.get("codes", name, version)["properties"]["codeUri"]
            self._fetch(*self._place(uri), folder)

    def fetch_inputs(self, folder: str) -> dict[str, str]:
        """The value of each input's expression; what is mounted or downloaded lies below the folder."""
        found = {}
        for name, each in (self._job.properties.get("inputs") or {}).items():
            if each.get("jobInputType") == "literal":
                found[name] = str(each.get("value"))
            elif each.get("uri"):
                uri, mode = self._resolved(str(each["uri"])), str(each.get("mode") or "ReadOnlyMount")
                found[name] = uri if mode == "Direct" else self._fetch_input(uri, os.path.join(folder, name))
        return found

    def _fetch_input(self, uri: str, folder: str) -> str:
        """The path of the file, or of the folder. Nobody may write to it."""
        container, path = self._place(uri)
        os.makedirs(folder)
        self._fetch(container, path, folder)
        for directory, _, files in os.walk(folder):
            for each in files:
                os.chmod(os.path.join(directory, each), 0o444)
        is_file = (
            not path.endswith("/") and os.path.isfile(self._service.store.path(container, path)) if path else False
        )
        return os.path.join(folder, os.path.basename(path)) if is_file else folder

    def make_outputs(self, folder: str) -> dict[str, str]:
        """The place of each output, a directory that is there, or a file that is not: among the blobs where it is
        mounted, so that all nodes share it."""
        found = {}
        for name, each in (self._job.properties.get("outputs") or {}).items():
            if str(each.get("mode") or "") in _MOUNTED:
                datastore, path = self._job.output(name)
                found[name] = self._service.store.path(_container(datastore), path.rstrip("/"))
            else:
                found[name] = os.path.join(folder, name)
            is_file = each.get("jobOutputType") == "uri_file"
            os.makedirs(os.path.dirname(found[name]) if is_file else found[name], exist_ok=True)
        return found

    def upload_outputs(self, made: Mapping[str, str], working: str) -> None:
        """What is not mounted, and `./outputs` and `./logs` of the working directory."""
        for name, each in (self._job.properties.get("outputs") or {}).items():
            if str(each.get("mode") or "") not in _MOUNTED:
                datastore, path = self._job.output(name)
                self._upload(made[name], _container(datastore), path.rstrip("/"))
        for name in ("outputs", "logs"):
            self._upload(os.path.join(working, name), CONTAINERS[ARTIFACT_STORE], "%s/%s" % (self._job.artifacts, name))

    def log(self, name: str) -> str:
        """The file of a log, which is a blob while it is written."""
        path = self._service.store.path(CONTAINERS[ARTIFACT_STORE], "%s/%s" % (self._job.artifacts, name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def _resolved(self, uri: str) -> str:
        """The address behind an asset of the workspace."""
        place = uri.removeprefix("azureml:")
        if place.startswith(scope() + "/data/"):
            name, _, version = place.removeprefix(scope() + "/data/").partition("/versions/")
        elif uri.startswith("azureml:") and uri.count(":") == 2:
            name, version = place.split(":")
        else:
            return uri
        return str(self._service.assets.get("data", name, version)["properties"]["dataUri"])

    def _place(self, uri: str) -> tuple[str, str]:
        """The container and the path in it of an address of a blob, or of a path of a datastore."""
        parts = urlsplit(uri)
        if parts.scheme == "https" and (parts.hostname or "").startswith("%s.blob." % ACCOUNT):
            container, _, path = unquote(parts.path).lstrip("/").partition("/")
            return container, path
        datastore, path = datastore_path(uri)
        return _container(datastore), path

    def _fetch(self, container: str, path: str, folder: str) -> None:
        """The blob of this name, or all below it. Raises Refusal if there is none."""
        store = self._service.store
        below = path.rstrip("/") + "/" if path else ""
        found = [blob for blob in store.list(container, path.rstrip("/")) if os.path.isfile(blob.path)]
        found = [blob for blob in found if blob.name == path or blob.name.startswith(below)]
        if not found:
            raise Refusal(404, "DataAccessError.NotFound", "No data is at %s/%s." % (container, path))
        for blob in found:
            short = os.path.basename(path) if blob.name == path else blob.name[len(below) :]
            target = os.path.join(folder, short)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(blob.path, target)

    def _upload(self, folder: str, container: str, prefix: str) -> None:
        """All files of the folder, or the file."""
        if os.path.isfile(folder):
            target = self._service.store.path(container, prefix)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(folder, target)
        for directory, _, files in os.walk(folder):
            for each in files:
                path = os.path.join(directory, each)
                if os.path.isfile(path):
                    target = self._service.store.path(container, "%s/%s" % (prefix, os.path.relpath(path, folder)))
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copyfile(path, target)


def _container(datastore: str) -> str:
    if datastore not in CONTAINERS:
        raise Refusal(404, "UserError", "Could not find datastore: %s" % datastore)
    return CONTAINERS[datastore]
