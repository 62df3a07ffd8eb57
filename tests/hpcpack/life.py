"""The command line beside the share of a simulated cluster, for the tests of a run's life."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from driver import Cli, wait_for

from hpcpack.simulator import Simulator

PATIENCE = 60.0
PATIENT = ("sh", "-c", "touch outputs/up-$RANK; sleep 120")


class Client(Cli):
    """A project on the share, whose default compute is the simulated cluster."""

    def __init__(self, simulator: Simulator) -> None:
        super().__init__(tempfile.mkdtemp(dir=simulator.share))
        self.simulator = simulator
        self.environ.update(simulator.environ(), PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
        self.configure()

    def configure(self, *lines: str, replace: Mapping[str, str] | None = None) -> None:
        """The simulator's own configuration, with so many further keys of the compute."""
        with open(self.simulator.config) as file:
            text = file.read()
        for old, new in (replace or {}).items():
            assert old in text
            text = text.replace(old, new)
        self.write("worldsize.toml", "\n".join([text.rstrip(), *lines]) + "\n")

    def job(self, command: str, world: str = "2x1", **keys: Any) -> str:
        """A job file; its path."""
        nodes, _, processes = world.partition("x")
        job = {
            "command": command,
            "distribution": {"type": "pytorch", "process_count_per_instance": int(processes)},
            "resources": {"instance_count": int(nodes)},
            **keys,
        }
        return self.write("job.yml", json.dumps(job))

    def running(self, world: str = "2x1", **keys: Any) -> str:
        """A run whose ranks are up."""
        self.job("touch outputs/up-$RANK; exec sleep 120", world, **keys)
        run = self.submit("job.yml")
        nodes, _, processes = world.partition("x")
        wait_for(lambda: self.ranks_up(run) == int(nodes) * int(processes) and self.has_begun(run), PATIENCE)
        return run

    def ranks_up(self, run: str) -> int:
        outputs = self.path(run, "outputs")
        names = os.listdir(outputs) if os.path.isdir(outputs) else []  # an element's is made when it begins
        return len([name for name in names if name.startswith("up-")])

    def ended(self, run: str, timeout: float = PATIENCE) -> Mapping[str, Any]:
        """The status of a run, once it has ended."""
        self("wait", run, "--timeout", str(timeout), timeout=timeout + 30)
        status = self.status(run)
        assert status["exit_code"] is not None, "%s did not end in time: %s" % (run, status)
        return status

    def handle(self, run: str) -> dict[str, Any]:
        handle: dict[str, Any] = json.loads(self.read(run, "handle.json"))
        return handle

    def number(self, run: str) -> int:
        """The job's, on the head node."""
        return int(self.handle(run)["job"])

    def jobs(self) -> list[dict[str, str]]:
        """All that the head node has."""
        rows = self.simulator.ask("GET", "/jobs", params={"rowsPerRead": 10000, "properties": "Id,Name,State"})
        return [{each["Name"]: each["Value"] for each in row["Properties"]} for row in rows]

    def jobs_of(self, run: str) -> list[dict[str, str]]:
        return [job for job in self.jobs() if job["Name"] == "worldsize " + run]

    def runs(self) -> list[str]:
        """What lies in the runs directory."""
        directory = os.path.join(self.simulator.share, "runs")
        return [name for name in os.listdir(directory) if name[:1] != "."] if os.path.isdir(directory) else []
