"""A compute under test, and a project on it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import Compute, Handle
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.service.computes import open_compute
from worldsize.service.runs.run import Run
from worldsize.store.find import find_run_paths
from worldsize_conformance.driver import SOURCE, Cli


class Target(NamedTuple):
    """A compute as the suite needs it.

    name      what `--compute` calls it
    config    its table in worldsize.toml; empty for one that is always there
    patience  seconds that a small job may take from its submission to its end
    directory where projects and runs are put, and the nodes see them; None: a temporary directory of this machine
    environ   variables that the command line needs to reach the compute
    inherits  what the submitting shell exports reaches the nodes
    unknown   what a handle holds of a job that the compute has never heard of; empty where none can be told
    """

    name: str
    config: str
    patience: float
    directory: str | None = None
    environ: Mapping[str, str] = {}
    inherits: bool = True
    unknown: Mapping[str, Any] = {}


class Place(Cli):
    """The command line in a project whose jobs run on the target, and the compute itself."""

    def __init__(self, root: str, target: Target) -> None:
        super().__init__(root)
        self.target = target
        searched = [SOURCE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self.environ.update(target.environ, PYTHONPATH=os.pathsep.join(dict.fromkeys(searched)))
        self.write("worldsize.toml", 'default_compute = "%s"\n%s' % (target.name, target.config))

    @property
    def capabilities(self) -> frozenset[str]:
        return self.compute().capabilities

    def require(self, *capabilities: str) -> None:
        """Skips a test of what no compute owes."""
        missing = {*capabilities} - self.capabilities
        if missing:
            pytest.skip("%s has no capability %s" % (self.target.name, ", ".join(sorted(missing))))

    def job(self, command: str, world: str = "1x1", **keys: Any) -> str:
        """A job file; its path. `keys` are further keys of it."""
        nodes, _, processes = world.partition("x")
        job = {
            "command": command,
            "distribution": {"type": "pytorch", "process_count_per_instance": int(processes)},
            "resources": {"instance_count": int(nodes)},
            **keys,
        }
        return self.write("job.yml", json.dumps(job, ensure_ascii=False))

    def compute(self) -> Compute:
        return open_compute(load_config(self.project, self.environ), self.target.name, self.environ)

    def handle(self, run: str) -> Handle:
        handle: Handle = json.loads(self.read(run, "handle.json"))
        return handle

    def node_path(self, path: str) -> str:
        """The nodes' path of one of this machine's."""
        return to_node_path(os.path.realpath(path), self.compute().facts(Job()).mapped)

    def forget(self, run: str) -> None:
        """The run's native job is unknown from now on."""
        if self.target.unknown:
            handle = {**self.handle(run), **self.target.unknown}
            with open(self.path(run, "handle.json"), "w") as file:
                json.dump(handle, file)

    def open(self, run: str) -> Run:
        return Run(find_run_paths(self.home, run), self.environ)

    def wait_for_end(self, run: str) -> Mapping[str, Any]:
        """The status of a run, once it has ended."""
        self("wait", run, "--timeout", str(self.target.patience))
        status = self.status(run)
        assert status["exit_code"] is not None, "%s did not end in time" % run
        return status

    def read_output(self, run: str, name: str) -> str:
        return self.read(run, "outputs", name)

    def has_outputs(self, run: str, *names: str) -> bool:
        """Whether these files are in the run's outputs."""
        return all(os.path.exists(self.path(run, "outputs", name)) for name in names)
