"""One job on its nodes: preparing, running, finalizing."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from azureml_double.jobs import Job
from azureml_double.options import GROUP, SUBSCRIPTION, WORKSPACE
from azureml_double.runs.command import expand
from azureml_double.runs.data import Data
from azureml_double.runs.distributions import Rank, ranks_of
from azureml_double.times import duration
from azureml_double.web import Refusal

if TYPE_CHECKING:
    from azureml_double.service import Service

_NODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node.py")
_TAIL = 2000
LOST = 1000
"""What stands for the exit code of a rank whose node is gone."""


class Execution:
    """nodes   the double's numbers of the job's nodes, in the order of their ranks"""

    def __init__(self, service: Service, job: Job, nodes: list[int]) -> None:
        self._service, self._job = service, job
        self._data = Data(service, job)
        self._addresses = [service.node_address(node) for node in nodes]
        self._folders = [
            os.path.join(service.folder, "nodes", job.name, "node-%d" % node) for node in range(len(nodes))
        ]
        self._temporary = [tempfile.mkdtemp(prefix="node-") for _ in nodes]  # short: sockets are made there
        self._outputs: list[dict[str, str]] = []
        self._processes: list[subprocess.Popen[str]] = []
        self._ends: queue.Queue[tuple[int, int]] = queue.Queue()
        self._ranks = ranks_of(job.properties.get("distribution") or {}, self._addresses)

    def run(self) -> None:
        """The job is over on return, and none of its processes is left."""
        job, pause = self._job, self._service.options.delay
        try:
            job.enter("Preparing")
            time.sleep(pause)
            started = self._prepare()
            if job.cancelled.is_set():
                return job.enter("Canceled")
            running = self._start(started)
            job.enter("Running")
            codes = self._wait(running)
            self.end()
            job.enter("Finalizing")
            time.sleep(pause)
            for made, folder in zip(self._outputs, self._folders, strict=True):
                self._data.upload_outputs(made, os.path.join(folder, "wd"))
            self._end(codes)
        finally:
            self.end()
            for folder in [*self._folders, *self._temporary]:
                shutil.rmtree(folder, ignore_errors=True)

    def kill_node(self, node: int) -> bool:
        """Whether there was one."""
        if not 0 <= node < len(self._processes) or self._processes[node].poll() is not None:
            return False
        self._send(self._processes[node], None)
        return True

    def end(self) -> None:
        """Every node ends, with all that runs on it."""
        for process in self._processes:
            self._send(process, None)
        for process in self._processes:
            process.wait()

    def _prepare(self) -> list[list[dict[str, Any]]]:
        """Each node's ranks, as its process is told. Raises Refusal."""
        found = []
        for node, folder in enumerate(self._folders):
            working = os.path.join(folder, "wd")
            os.makedirs(working)
            self._data.fetch_code(working)
            for name in ("outputs", "logs"):
                os.makedirs(os.path.join(working, name), exist_ok=True)
            inputs = self._data.fetch_inputs(os.path.join(folder, "inputs"))
            outputs = self._data.make_outputs(os.path.join(folder, "uploads"))
            self._outputs.append(outputs)
            try:
                command = expand(self._job.properties["command"], inputs, outputs)
            except ValueError as error:
                raise Refusal(400, "UserError", str(error)) from None
            common = {**self._common(node, folder), **_names("INPUT", inputs), **_names("OUTPUT", outputs)}
            found.append([self._told(rank, command, working, common) for rank in self._ranks if rank.node == node])
        return found

    def _told(self, rank: Rank, command: str, working: str, common: dict[str, str]) -> dict[str, Any]:
        environ = {**common, **rank.environ, "AZUREML_PROCESS_NAME": "rank_%d" % rank.rank}
        environ.update(self._job.properties.get("environmentVariables") or {})
        log = self._data.log(rank.log)
        open(log, "ab").close()
        return {"rank": rank.rank, "command": command, "folder": working, "environ": environ, "log": log}

    def _common(self, node: int, folder: str) -> dict[str, str]:
        """Of every process of the node. Nothing of the double's own environment but where programs are."""
        return {
            "PATH": "%s:%s" % (self._programs(), os.environ.get("PATH", os.defpath)),
            "HOME": folder,
            "TMPDIR": self._temporary[node],
            "LANG": "C.UTF-8",
            "AZUREML_RUN_ID": self._job.name,
            "AZUREML_ROOT_RUN_ID": self._job.name,
            "AZUREML_EXPERIMENT_NAME": self._job.experiment,
            "AZUREML_ARM_SUBSCRIPTION": SUBSCRIPTION,
            "AZUREML_ARM_RESOURCEGROUP": GROUP,
            "AZUREML_ARM_WORKSPACE_NAME": WORKSPACE,
            "AZUREML_SERVICE_ENDPOINT": self._service.url,
            "AZUREML_NODE_COUNT": str(len(self._folders)),
            "AZUREML_CR_NODE_RANK": str(node),
            "AZ_BATCHAI_JOB_TEMP": self._temporary[node],
            "OMP_NUM_THREADS": "1",
        }

    def _programs(self) -> str:
        """The directory of the programs of the job's environment; those of the double's own where none is known."""
        environment = str(self._job.properties.get("environmentId"))
        known = (place for part, place in self._service.options.programs.items() if part in environment)
        return next(known, os.path.dirname(sys.executable))

    def _start(self, told: list[list[dict[str, Any]]]) -> set[int]:
        """Every node's process; the ranks that run."""
        names = ["vmps-%s-%d" % (self._job.name[-6:], node) for node in range(len(told))]
        hosts = self._write_hosts(names)
        for name, ranks in zip(names, told, strict=True):
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", _NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self._processes.append(process)
            assert process.stdin is not None
            process.stdin.write(json.dumps({"name": name, "hosts": hosts, "ranks": ranks}) + "\n")
            process.stdin.flush()
            numbers = {rank["rank"] for rank in ranks}
            threading.Thread(target=self._read, args=(process, numbers), daemon=True).start()
        return {rank.rank for rank in self._ranks}

    def _write_hosts(self, names: list[str]) -> str:
        """The path of a file as /etc/hosts, with the nodes' names."""
        path = os.path.join(self._temporary[0], "hosts")
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        lines += ["%s %s" % row for row in zip(self._addresses, names, strict=True)]
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    def _read(self, process: subprocess.Popen[str], ranks: set[int]) -> None:
        """How the node's ranks end; a node that ends before them takes them along."""
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            ranks.discard(found["rank"])
            self._ends.put((found["rank"], found["code"]))
        process.wait()
        for rank in ranks:
            self._ends.put((rank, LOST))

    def _wait(self, running: set[int]) -> dict[int, int]:
        """The exit code of each rank. Ends them at a request or at the time limit: SIGTERM, then SIGKILL."""
        limits = self._job.properties.get("limits") or {}
        until = time.monotonic() + duration(limits["timeout"]) if limits.get("timeout") else None
        kill_at: float | None = None
        codes: dict[int, int] = {}
        while running:
            now = time.monotonic()
            if until is not None and now >= until:
                until = None
                self._job.cancel("The job exceeded its time limit, limits.timeout = %s" % limits["timeout"])
            failed = self._service.options.fail_fast and any(codes.values())
            if kill_at is None and (self._job.cancelled.is_set() or failed):
                kill_at = now + self._service.options.grace
                self._signal(signal.SIGTERM)
            elif kill_at is not None and now >= kill_at:
                self._signal(signal.SIGKILL)
            try:
                rank, code = self._ends.get(timeout=0.05)
            except queue.Empty:
                continue
            running.discard(rank)
            codes[rank] = code
        return codes

    def _signal(self, number: int) -> None:
        for process in self._processes:
            self._send(process, number)

    def _send(self, process: subprocess.Popen[str], number: int | None) -> None:
        """A signal for all processes of a node; None: its end, at once."""
        assert process.stdin is not None
        try:
            if number is None:
                process.stdin.close()
            else:
                process.stdin.write("%d\n" % number)
                process.stdin.flush()
        except (OSError, ValueError):  # it has ended
            pass

    def _end(self, codes: dict[int, int]) -> None:
        job = self._job
        if job.cancelled.is_set():
            return job.enter("Canceled")
        failed = [rank for rank in self._ranks if codes[rank.rank]]
        if not failed:
            return job.enter("Completed")
        first = failed[0]
        if codes[first.rank] == LOST:
            return job.fail("NodeLost", "Node %d of the job was lost." % first.node)
        text = "Execution failed. User process '/bin/bash' exited with status code %d. "
        text += "Please check log file '%s' for error details. Error: %s"
        with open(self._data.log(first.log), "rb") as file:
            tail = file.read()[-_TAIL:].decode("utf-8", "replace")
        job.fail("UserError", text % (codes[first.rank], first.log, tail))


def _names(kind: str, values: dict[str, str]) -> dict[str, str]:
    return {"AZURE_ML_%s_%s" % (kind, name): value for name, value in values.items()}
