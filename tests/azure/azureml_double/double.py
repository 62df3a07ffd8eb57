"""The double as tests drive it: `Double.start(folder)`, a process of its own."""

from __future__ import annotations

import json
import os
import runpy
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from azureml_double.api.account_routes import CLIENT_ID, CLIENT_SECRET, CLOUD
from azureml_double.options import ACCOUNT, GROUP, SUBSCRIPTION, WORKSPACE, scope

if TYPE_CHECKING:
    import azureml_double.__main__  # noqa: F401 - so that a change of it is seen to affect what imports this

HERE = os.path.dirname(os.path.abspath(__file__))
RESOLVER = os.path.join(HERE, "resolver")
OVER = ("Completed", "Failed", "Canceled")
API_VERSION = "2025-01-01-preview"
COMPUTES = {"cpu-cluster": ["Standard_D2s_v3", 4], "small": ["Standard_D2s_v3", 1]}


class DoubleError(Exception):
    """It did not start. The message is what it said."""


class Double:
    """A running one. It ends with `stop`, or with the process that started it.

    url         of the control plane and the run history
    suffix      of storage, with the port
    ca_file     the authority that clients have to trust
    token       the bearer token that it accepts
    folder      blobs/ and requests.log lie in it
    """

    cloud, subscription, group, workspace, account = CLOUD, SUBSCRIPTION, GROUP, WORKSPACE, ACCOUNT
    client_id, client_secret = CLIENT_ID, CLIENT_SECRET
    scope = scope()

    def __init__(self, process: subprocess.Popen[str], folder: str, token: str) -> None:
        self.process, self.folder, self.token = process, folder, token
        self.url = self.suffix = self.ca_file = ""
        self._client: Any = None

    @classmethod
    def start(cls, folder: str, **options: object) -> Double:
        """It answers requests on return. `folder` is there and ours; the options are those of `Options`."""
        token = secrets.token_urlsafe(24)
        process = subprocess.Popen(
            [sys.executable, "-m", "azureml_double", folder],
            env={**os.environ, "PYTHONPATH": os.path.dirname(HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(os.path.join(folder, "double.log"), "wb"),
            text=True,
            start_new_session=True,
        )
        double = cls(process, folder, token)
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"computes": COMPUTES, **options, "token": token}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            process.wait()
            with open(os.path.join(folder, "double.log"), encoding="utf-8") as file:
                raise DoubleError(file.read())
        found = json.loads(line)
        double.url, double.suffix, double.ca_file = found["url"], found["suffix"], found["ca_file"]
        return double

    def environ(self, *python_path: str) -> dict[str, str]:
        """What a client in another process needs to find the double instead of the service, and to trust it.

        `python_path`: further folders of its PYTHONPATH.
        """
        return {
            "ARM_CLOUD_METADATA_URL": "%s/metadata/endpoints?api-version=2019-05-01" % self.url,
            "AZURE_AUTHORITY_HOST": self.url,
            "REQUESTS_CA_BUNDLE": self.ca_file,
            "SSL_CERT_FILE": self.ca_file,
            "PYTHONPATH": os.pathsep.join((RESOLVER, *python_path)),
            "AZUREML_RUN_POLLING_INTERVAL_MIN": "0",
            "AZUREML_RUN_POLLING_INTERVAL_MAX": "1",
            "DOUBLE_TOKEN": self.token,
        }

    def trust(self) -> ssl.SSLContext:
        """That of a client which trusts the double alone."""
        return ssl.create_default_context(cafile=self.ca_file)

    # Requests

    def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """An `httpx.Response`. `path` is below the workspace unless it begins with /admin, /history, … or https."""
        import httpx

        if self._client is None:
            self._client = httpx.Client(verify=self.trust(), timeout=20)
        if body is not None:
            options["json"] = body
        options.setdefault("headers", {"Authorization": "Bearer " + self.token})
        if path.startswith("/admin/"):
            return self._client.request(method, self.url + path, **options)
        before, _, after = path.partition(":") if path.startswith("/history/") else ("", "", path)
        options.setdefault("params", {"api-version": API_VERSION})
        return self._client.request(method, self.url + before + quote(self.scope) + after, **options)

    def ask(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """The JSON of a successful answer, None for no content."""
        answer = self.call(method, path, body, **options)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def requests(self) -> list[str]:
        """All so far, the oldest first: `PUT 127.77.1.1/subscriptions/… 201`."""
        with open(os.path.join(self.folder, "requests.log"), encoding="utf-8") as file:
            return file.read().splitlines()

    # Jobs

    def submit(
        self, name: str, command: str, compute: str = "cpu-cluster", nodes: int = 1, **properties: object
    ) -> None:
        """A command job, with the further properties of its body."""
        body = {
            "jobType": "Command",
            "command": command,
            "computeId": "%s/computes/%s" % (self.scope, compute),
            "environmentId": "azureml://registries/azureml/environments/any/versions/1",
            "resources": {"instanceCount": nodes},
            **properties,
        }
        self.ask("PUT", "/jobs/" + name, {"properties": body})

    def job(self, name: str) -> dict[str, Any]:
        """Its properties."""
        found: dict[str, Any] = self.ask("GET", "/jobs/" + name)["properties"]
        return found

    def details(self, name: str) -> dict[str, Any]:
        """Of its run, with the addresses of its logs."""
        found: dict[str, Any] = self.ask("GET", "/history/v1.0:/runs/%s/details" % name)
        return found

    def states(self, name: str) -> list[str]:
        """All that it had, the oldest first."""
        return [state for state, _ in self.ask("GET", "/admin/jobs/%s/states" % name)["states"]]

    def wait(self, name: str, *statuses: str, timeout: float = 30) -> dict[str, Any]:
        """Its properties, once it is in one of these states, or over if none is named."""
        return until(lambda: self.job(name), lambda found: found["status"] in (statuses or OVER), timeout)

    def blob(self, container: str, name: str) -> str:
        """The file of a blob, there or not."""
        return os.path.join(self.folder, "blobs", container, name)

    def artifact(self, job: str, name: str) -> bytes:
        """The content of a log, or of what the job wrote into ./outputs."""
        with open(self.blob("azureml", "ExperimentRun/dcid.%s/%s" % (job, name)), "rb") as file:
            return file.read()

    # Faults

    def fault(self, path: str, **fields: object) -> None:
        """What becomes of the next requests whose `host/path` has this pattern in it: see `faults.Fault`."""
        self.ask("POST", "/admin/faults", {"path": path, **fields})

    def clear_faults(self) -> None:
        self.ask("DELETE", "/admin/faults")

    def new_token(self) -> str:
        token: str = self.ask("POST", "/admin/tokens")["token"]
        return token

    def revoke(self, token: str) -> None:
        """It is refused from now on, with 401."""
        self.ask("POST", "/admin/revoke", {"token": token})

    def kill_node(self, job: str, node: int) -> None:
        self.ask("DELETE", "/admin/jobs/%s/nodes/%d" % (job, node))

    @contextmanager
    def away(self) -> Iterator[None]:
        """It takes connections and answers nothing; its jobs go on."""
        os.kill(self.process.pid, signal.SIGSTOP)
        until(lambda: _states_of_threads(self.process.pid), lambda found: found == {"T"}, 20)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def errors(self) -> str:
        """What it wrote of faults of its own; empty if there were none."""
        with open(os.path.join(self.folder, "double.log"), encoding="utf-8") as file:
            return file.read()

    # The end

    def restore(self) -> None:
        """No fault is left, and no job that is not over."""
        self.clear_faults()
        view = {"api-version": API_VERSION, "listViewType": "All"}
        listed: dict[str, Any] = {"nextLink": None}
        names = []
        while "nextLink" in listed:
            listed = self.ask("GET", "/jobs", params={**view, "$skip": str(len(names))})
            names += [each["name"] for each in listed["value"]]
        for name in names:
            if self.job(name)["status"] not in OVER:
                self.ask("POST", "/jobs/%s/cancel" % name)
                self.wait(name)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code; nothing of it is left."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()


def _states_of_threads(pid: int) -> set[str]:
    """Of those that are there: `T` where it is stopped."""
    found = set()
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/stat" % (pid, thread), encoding="utf-8") as file:
                found.add(file.read().rpartition(")")[2].split()[0])
        except FileNotFoundError:
            continue
    return found


@contextmanager
def names_resolved() -> Iterator[None]:
    """Inside, this process finds the storage accounts of doubles by their names."""
    before = socket.getaddrinfo
    runpy.run_path(os.path.join(RESOLVER, "sitecustomize.py"))
    try:
        yield
    finally:
        socket.getaddrinfo = before


def until(ask: Callable[[], Any], good: Callable[[Any], bool], timeout: float) -> Any:
    """What was asked for, once it is good. AssertionError if that takes longer than `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        found = ask()
        if good(found):
            return found
        assert time.monotonic() < end, found
        time.sleep(0.02)
