"""The simulated HPC Pack cluster as tests drive it: `Simulator.start(folder)`, a real process with real nodes."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "src")
USER, PASSWORD = "HPC\\hpcadmin", "Pa$$w0rd: ü"
OVER = ("Finished", "Failed", "Canceled")
_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_the_test() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class SimulatorError(Exception):
    """It did not start. The message is what it said."""


class Simulator:
    """A running one. It ends with `stop`, or with the process that started it.

    url         of the head node, without /hpc
    user, password, ca_file
    share       the shared directory by its path on this machine
    config      the worldsize.toml that it has written
    node_names  cn01, cn02, …
    """

    user, password = USER, PASSWORD

    def __init__(self, process: subprocess.Popen[str], folder: str) -> None:
        self.process = process
        self.share = os.path.join(folder, "share")
        self.config = os.path.join(folder, "worldsize.toml")
        self.ca_file = os.path.join(folder, "hpcpack-ca.pem")
        self._log = os.path.join(folder, "requests.log")
        self.said: list[str] = []
        self.url = ""
        self.node_names: list[str] = []
        self._client: Any = None

    @classmethod
    def start(cls, folder: str, nodes: int = 4, **options: object) -> Simulator:
        """All its nodes are online on return. `folder` is there and ours.

        Options are those of the command line, `_` for `-`: True for one without a value, a list for one that may be
        repeated. Quick unless they say otherwise: a passing state takes 0.02 s.
        """
        given = {"nodes": nodes, "delay": 0.02, "user": cls.user, **options}
        share = os.path.join(folder, "share")
        argv = ["simulate", "hpcpack", "--share", share, "--requests", os.path.join(folder, "requests.log")]
        environ = {**os.environ, "PYTHONPATH": SOURCE, "WORLDSIZE_HPCPACK_PASSWORD": cls.password}
        process = subprocess.Popen(
            [sys.executable, "-m", "worldsize", *argv, *_words(given)],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_end_with_the_test,
        )
        simulator = cls(process, folder)
        simulator._read_start()
        return simulator

    def _read_start(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith("HPC Pack at "):
                self.url = line.split()[3].partition("/hpc:")[0]
            elif " is process " in line:
                self.node_names.append(line.partition(" is process ")[0])
            elif line.rstrip("\n") == self.config:
                return
        self.process.wait()
        raise SimulatorError("\n".join(self.said))

    def node_pid(self, name: str) -> int:
        """The process that is the node now; killed, the node is dead."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid, "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    words = file.read().split(b"\0")[:-1]
            except OSError:
                continue
            if parent == self.process.pid and words and json.loads(words[-1])["name"] == name:
                return int(pid)
        raise ProcessLookupError("no process is node %s" % name)

    def environ(self) -> dict[str, str]:
        """What a command line needs to know of it."""
        return {"WORLDSIZE_HPCPACK_PASSWORD": self.password}

    # Requests

    def requests(self) -> list[str]:
        """All so far, the oldest first: `POST /hpc/jobs 200`."""
        with open(self._log, encoding="utf-8") as file:
            return file.read().splitlines()

    @contextmanager
    def counting(self) -> Iterator[list[str]]:
        """The requests that are made inside."""
        before = len(self.requests())
        found: list[str] = []
        yield found
        found += self.requests()[before:]

    def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """An `httpx.Response`, of the path below /hpc, as the administrator. `auth`, `headers`, … as httpx has them."""
        import httpx

        if self._client is None:
            self._client = httpx.Client(verify=ssl.create_default_context(cafile=self.ca_file), timeout=20)
        options.setdefault("auth", (self.user.encode(), self.password.encode()))
        if body is not None:
            options["json"] = body
        return self._client.request(method, self.url + "/hpc" + path, **options)

    def ask(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """The JSON of a successful answer, None for no content."""
        answer = self.call(method, path, body, **options)
        assert answer.status_code < 300, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # Jobs

    def new_job(self, *commands: str | Mapping[str, object], **properties: object) -> int:
        """A job with a task for each command (or each set of a task's properties), not submitted yet."""
        job = self.ask("POST", "/jobs", listed(properties))
        for command in commands:
            self.ask(
                "POST",
                "/jobs/%d/tasks" % job,
                listed({"CommandLine": command} if isinstance(command, str) else command),
            )
        return int(job)

    def submitted(self, *commands: str | Mapping[str, object], **properties: object) -> int:
        job = self.new_job(*commands, **properties)
        self.ask("POST", "/jobs/%d/submit" % job)
        return job

    def job(self, job: int, *names: str) -> dict[str, str]:
        return values(self.ask("GET", "/jobs/%d" % job, params={"properties": ",".join(names)} if names else None))

    def task(self, job: int, task: int = 1, *names: str) -> dict[str, str]:
        query = {"properties": ",".join(names)} if names else None
        return values(self.ask("GET", "/jobs/%d/tasks/%d" % (job, task), params=query))

    def wait(self, job: int, *states: str, timeout: float = 20) -> dict[str, str]:
        """The job once it is in one of the states, or over if none is named."""
        return until(lambda: self.job(job), lambda found: found["State"] in (states or OVER), timeout)

    def wait_task(self, job: int, task: int, *states: str, timeout: float = 20) -> dict[str, str]:
        return until(lambda: self.task(job, task), lambda found: found["State"] in (states or OVER), timeout)

    # Faults

    def kill_node(self, name: str) -> None:
        """It is dead, and the head node has noticed."""
        os.kill(self.node_pid(name), signal.SIGKILL)
        until(lambda: self.node(name), lambda node: node["Health"] == "Error", 20)

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("GET", "/cluster/nodes/" + name)
        return found

    def operate(self, name: str, operation: str) -> None:
        self.ask("POST", "/cluster/nodes/%s/operations/%s" % (name, operation))

    def group(self, name: str, *nodes: str) -> str:
        """Makes one of these nodes, until `restore`; the line of a compute that is this group alone."""
        self.ask("POST", "/cluster/nodeGroups", {"Name": name, "Description": ""})
        self.ask("PATCH", "/cluster/nodeGroups/%s/nodes" % name, {"Operation": "add", "NodeNames": list(nodes)})
        return 'node_group = "%s"' % name

    @contextmanager
    def away(self) -> Iterator[None]:
        """The head node takes connections and answers nothing; its nodes go on."""
        os.kill(self.process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGCONT)

    def restore(self) -> None:
        """No job is left that is not over, and all nodes are online, in the groups they started in."""
        for row in self.ask("GET", "/jobs", params={"rowsPerRead": 100000}):
            found = values(row["Properties"])
            if found["State"] not in OVER:
                self.call("POST", "/jobs/%s/cancel?forced=true" % found["Id"], "left by a test")
                self.wait(int(found["Id"]))
        for group in self.ask("GET", "/cluster/nodeGroups"):
            if not group["Managed"]:
                self.ask("DELETE", "/cluster/nodeGroups/" + group["Name"])
        for name in self.node_names:
            if self.node(name)["Health"] != "OK":
                self.operate(name, "start")
            elif self.node(name)["State"] != "Online":
                self.operate(name, "bringOnline")
            until(lambda name=name: self.node(name), _well, 20)

    # The end

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code; nothing of it is left."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(20)
        finally:
            self.process.kill()
        if self.process.stdout is not None:
            self.said += self.process.stdout.read().splitlines()
            self.process.stdout.close()
        return code


def _well(node: Mapping[str, Any]) -> bool:
    return node["State"] == "Online" and node["Health"] == "OK"


def _words(options: Mapping[str, object]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for each in value if isinstance(value, list) else [value]:
            words += [option] if each is True else ["%s=%s" % (option, each)]
    return words


def listed(properties: Mapping[str, object]) -> list[dict[str, str]]:
    return [{"Name": name, "Value": str(value)} for name, value in properties.items()]


def values(properties: list[dict[str, str]]) -> dict[str, str]:
    return {each["Name"]: each["Value"] for each in properties}


def until(look: Callable[[], Any], good: Callable[[Any], bool], timeout: float) -> Any:
    """What `look` finds once it is `good`."""
    deadline = time.monotonic() + timeout
    while not good(found := look()):
        assert time.monotonic() < deadline, "still %s" % (found,)
        time.sleep(0.02)
    return found
