"""A compute under test, and a project on it."""

from __future__ import annotations

import functools
import glob
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import OUTPUTS, Compute, Handle
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.service.computes import open_compute
from worldsize.service.runs.run import Run
from worldsize.store.find import find_run_paths
from worldsize_conformance.driver import Cli, Result, needed_sources, sleepers


class Target(NamedTuple):
    """The description of a compute for the suite.

    name      the name for `--compute`
    config    its table in worldsize.toml; empty for a compute that always exists
    patience  seconds that a small job may need from its submission to its end
    directory the directory for projects and runs, which the nodes see; None: a temporary directory of this machine
    environ   variables that the command line needs to reach the compute
    inherits  whether variables that the submitting shell exports reach the nodes
    unknown   the content of a handle for a job that the compute does not know; empty if there is no such handle
    nodes     the largest number of nodes for a test: one that needs more is skipped; None: no limit
    visible   whether processes of nodes are processes of this machine, where tests search for them
    modules   whether its nodes may have environment modules
    """

    name: str
    config: str
    patience: float
    directory: str | None = None
    environ: Mapping[str, str] = {}
    inherits: bool = True
    unknown: Mapping[str, Any] = {}
    nodes: int | None = None
    visible: bool = True
    modules: bool = True


LIST_SLEEPERS = (
    "kernel=$(cat /proc/sys/kernel/random/boot_id)-$(readlink /proc/self/ns/pid); for each in /proc/[0-9]*; do "
    '[ "$(tr "\\0" " " 2>/dev/null <"$each"/cmdline)" = "sleep $1 " ] && echo "$kernel $each"; done 2>/dev/null; true'
)
"""A script that prints a line for each process `sleep $1` of a node. Nodes that are one machine print the same
lines."""


_TOUCHED = "touched "
"""The text that a rank prints before the name of a file that it has created in its outputs, if these are fetched."""

_HELD = 10
"""Seconds for which a gate holds ranks whose outputs cannot be written from this machine."""


def nodes_asked(words: Sequence[str]) -> int:
    """Return the number of nodes that a worldsize command line requests: `-w 2x1` or `-w 2`; 1 if it has no such
    option."""
    own = words[: words.index("--")] if "--" in words else words
    size = own[own.index("-w") + 1] if "-w" in own[:-1] else "1"
    nodes = size.partition("x")[0]
    return int(nodes) if nodes.isdigit() else 1


class Place(Cli):
    """The command line in a project whose jobs run on the target, and the compute itself."""

    def __init__(self, root: str, target: Target) -> None:
        super().__init__(root)
        self.target = target
        named = target.environ.get("PYTHONPATH", ""), os.environ.get("PYTHONPATH", "")
        searched = [*needed_sources(), *filter(None, os.pathsep.join(named).split(os.pathsep))]
        self.environ.update(target.environ, PYTHONPATH=os.pathsep.join(dict.fromkeys(searched)))
        self.write("worldsize.toml", 'default_compute = "%s"\n%s' % (target.name, target.config))

    def __call__(self, *words: str, cwd: str | None = None, timeout: float = 60, **environ: str) -> Result:
        """Run the worldsize command `words` to its end, and return its Result. The timeout includes the time that the
        target's queue may need."""
        return super().__call__(*words, cwd=cwd, timeout=max(timeout, self.target.patience + 30), **environ)

    def start(self, *words: str, cwd: str | None = None, **environ: str) -> subprocess.Popen[bytes]:
        self.require_nodes(nodes_asked(words))
        return super().start(*words, cwd=cwd, **environ)

    @property
    def capabilities(self) -> frozenset[str]:
        return self.compute().capabilities

    def require(self, *capabilities: str) -> None:
        """Skip the test if the compute under test lacks one of these optional capabilities."""
        missing = {*capabilities} - self.capabilities
        if missing:
            pytest.skip("%s has no capability %s" % (self.target.name, ", ".join(sorted(missing))))

    def require_nodes(self, nodes: int) -> None:
        """Skip the test if it needs more nodes than the target permits (`nodes` of the Target)."""
        if self.target.nodes is not None and nodes > self.target.nodes:
            pytest.skip("it needs %d nodes, and may have %d" % (nodes, self.target.nodes))

    def require_every_node(self) -> None:
        """Skip a test that uses all usable nodes of the compute if these are more than the target permits."""
        if self.target.nodes is not None:
            self.require_nodes(sum(row["usable"] for row in self.json("nodes")))

    def job(self, command: str, world: str = "1x1", **keys: Any) -> str:
        """Write the project's job file job.yml, which executes the shell command `command` on `world`
        ("NODESxPROCESSES"), and return its path. `keys` are further keys of the job. Skip the test if these are too
        many nodes."""
        nodes, _, processes = world.partition("x")
        self.require_nodes(int(nodes))
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
        """Return the path by which the compute's nodes see the file `path` of this machine."""
        return to_node_path(os.path.realpath(path), self.compute().facts(Job()).mapped)

    def forget(self, run: str) -> None:
        """Change the run's handle file so that the compute does not know its native job. Do nothing if the target has
        no such handle."""
        if self.target.unknown:
            handle = {**self.handle(run), **self.target.unknown}
            with open(self.path(run, "handle.json"), "w") as file:
                json.dump(handle, file)

    def open(self, run: str) -> Run:
        return Run(find_run_paths(self.home, run), self.environ)

    def wait_for_end(self, run: str) -> Mapping[str, Any]:
        """Wait until the run has ended, and return its status as a JSON object. Raise AssertionError if it does not end
        in time."""
        self("wait", run, "--timeout", str(self.target.patience))
        status = self.status(run)
        assert status["exit_code"] is not None, "%s did not end in time" % run
        return status

    @functools.cached_property
    def fetches_outputs(self) -> bool:
        """The flag that a service keeps each node's outputs until they are fetched, which may be impossible before the
        end of the run. Otherwise the run's directory contains the outputs of all nodes."""
        return OUTPUTS in self.capabilities

    def touch(self, name: str) -> str:
        """Return a line of shell, without quotes, with which a rank creates the empty file `name` in the run's outputs,
        so that `has_outputs` finds it."""
        made = "touch outputs/%s" % name
        return "%s; echo %s%s" % (made, _TOUCHED, name) if self.fetches_outputs else made

    def read_output(self, run: str, name: str) -> str:
        path = self.path(run, "outputs", name)
        if not os.path.exists(path):
            self.fetch_outputs(run)
        with open(path) as file:
            return file.read()

    def has_outputs(self, run: str, *names: str) -> bool:
        """Return whether the files `names` are in the run's outputs. While the run has not ended, only files that were
        created with `touch` are sure to be found."""
        left = {*names}
        if self.fetches_outputs:
            ended = self.status(run)["exit_code"] is not None  # this also fetches the logs
            left -= self._touched(run)
            if left and ended:
                self.fetch_outputs(run)
        return all(os.path.exists(self.path(run, "outputs", name)) for name in left)

    def _touched(self, run: str) -> set[str]:
        """Return the names of the files in the run's outputs that ranks, or lines of the setup, have reported in their
        logs as created."""
        logs = [*glob.glob(self.path(run, "attempt-*", "logs", "rank-*.log")), *glob.glob(self.path(run, "batch*.log"))]
        found: set[str] = set()
        for log in logs:
            with open(log, errors="replace") as file:
                found |= {line.removeprefix(_TOUCHED) for line in file.read().split("\n") if line.startswith(_TOUCHED)}
        return found

    def gate(self, name: str) -> str:
        """Return a line of shell with which a rank waits until the test calls `open_gate` with the same name; if
        outputs are fetched, it waits a fixed time instead."""
        return "sleep %d" % _HELD if self.fetches_outputs else "while ! test -e outputs/%s; do sleep 0.05; done" % name

    def open_gate(self, run: str, name: str) -> None:
        if not self.fetches_outputs:
            open(self.path(run, "outputs", name), "w").close()

    def fetch_outputs(self, run: str) -> None:
        """Fetch the outputs of a run into its run directory, if a service keeps them; otherwise do nothing."""
        if self.fetches_outputs and self.json("outputs", run):
            self.ok("fetch", run, "--to", os.path.join(self.root, "fetched"))

    def require_modules(self) -> None:
        """Skip a test of environment modules if the nodes have none."""
        if not self.target.modules:
            pytest.skip("its nodes have no modules")

    def require_common_outputs(self) -> None:
        """Skip a test whose nodes must see each other's outputs, if they cannot."""
        if self.fetches_outputs:
            pytest.skip("nodes have outputs of their own")

    def sleepers(self, seconds: str, *run: str) -> int:
        """Return the number of living processes `sleep SECONDS`: on this machine, or on the nodes of the run if these
        are other machines."""
        if self.target.visible:
            return len(sleepers(seconds))
        result = self("exec", *run, "-o", "json", "--", "sh", "-c", LIST_SLEEPERS, "sh", seconds)
        assert result.code == 0, result
        return len({line for row in json.loads(result.out) for line in row["stdout"].splitlines()})
