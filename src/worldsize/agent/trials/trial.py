"""One trial of a search, as one node has its part in it: a small run of its own inside the run, with agents, logs and
exit records like any other, whose code is the run's but for the configuration."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping

from worldsize.agent.control.rendezvous import HeadResources, Rendezvous, open_head
from worldsize.agent.launchers.base import choose_launcher
from worldsize.agent.local.conductor import run_as_program
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import SignalPipe
from worldsize.agent.supervision.supervisor import Supervisor
from worldsize.common.atomic_files import open_regular_file, write_bytes
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple

_GRACE = 3.0
"""A trial has nothing to save."""

_JOINING = 60.0
_OWN = ("outputs", "logs")


def trial_paths(run: RunPaths, number: int) -> RunPaths:
    return RunPaths(os.path.join(run.attempt_dir, "trials", f"{number:03d}"))


def trial_plan(plan: Plan, number: int) -> Plan:
    """What the nodes of a trial start: as many of the run's nodes, and what was to be started without a search."""
    said = plan.options
    search = said["search"]
    return plan._replace(
        run_id=f"{plan.run_id}.trial-{number}",
        attempt=0,
        nodes=plan.nodes[: search["nodes"]],
        launcher=said["launcher"],
        options=said["options"],
        ports=said["ports"],
        leaders=tuple(said["leaders"]),
        lingering=tuple(said["lingering"]),
        timeout=search["timeout"],
        grace=min(plan.grace, _GRACE),
        rendezvous_timeout=min(plan.rendezvous_timeout, _JOINING),
        setup=(),
        array=None,
        local=None,
        errands=False,
    )


def write_trial_directory(run: RunPaths, trial: RunPaths, name: str, config: Mapping[str, Any]) -> None:
    """The trial's own directories; its code is made of links to the run's, with the configuration `name` in its place.
    Raises OSError."""
    for directory in trial.directories():
        if directory != trial.inrank:
            os.makedirs(directory, exist_ok=True)
    _link(run.inrank, trial.inrank)
    _link_all(run.code, trial.code, os.path.normpath(name).split(os.sep), _OWN)
    for each, target in zip(_OWN, (trial.outputs, trial.user_logs)):
        _link(target, os.path.join(trial.code, each))
    write_bytes(os.path.join(trial.code, name), json.dumps(config, indent=2).encode() + b"\n")


def _link_all(source: str, target: str, path: List[str], without: Tuple[str, ...] = ()) -> None:
    """Links to all that is in `source`, except along `path`, where directories are made, and those `without`."""
    os.makedirs(target, exist_ok=True)
    first, *rest = path
    for name in os.listdir(source):
        if name == first and rest:
            _link_all(os.path.join(source, name), os.path.join(target, name), rest)
        elif name != first and name not in without:
            _link(os.path.join(source, name), os.path.join(target, name))


def _link(path: str, link: str) -> None:
    """By a relative path: nodes may call the run's directory otherwise."""
    if not os.path.lexists(link):
        os.symlink(os.path.relpath(path, os.path.dirname(link)), link)


class TrialAgent:
    """What this node does for one trial: it starts its agent, hears what rank 0 tells, and says how it ended."""

    def __init__(self, plan: Plan, paths: RunPaths, node_rank: int, environ: Mapping[str, str]) -> None:
        self._plan = plan
        self._paths = paths
        self._node_rank = node_rank
        self._environ = environ
        self._read = 0
        self._rest = b""
        self.pid = 0

    def open(self, address: str, token: str) -> HeadResources:
        """Where the trial's nodes meet, by this token; for its first node."""
        return open_head(self._plan, self._paths, address, choose_launcher(self._plan, self._environ), token)

    def start(self, rendezvous: Rendezvous, head: HeadResources | None, signals: SignalPipe) -> None:
        """Fork the agent of this node. It ends with us, by the pipe that only we hold open. Raises OSError."""
        lifeline, self._held = os.pipe()
        pid = os.fork()
        if pid == 0:
            run_as_program(lambda: self._run_agent(rendezvous, head, signals, lifeline))
        self.pid = pid
        os.close(lifeline)
        if head is not None and head.listener is not None:
            head.listener.close()

    def _run_agent(self, rendezvous: Rendezvous, head: HeadResources | None, signals: SignalPipe, lifeline: int) -> int:
        os.setsid()
        os.close(self._held)
        signals.forget()
        for directory in self._paths.directories():
            os.makedirs(directory, exist_ok=True)
        return Supervisor(self._plan, self._paths, self._node_rank, rendezvous, head, self._environ, lifeline).run()

    def stop(self) -> None:
        processes.signal_process(self.pid, signal.SIGTERM)

    def take_lines(self) -> list[str]:
        """The whole lines that rank 0, on this node, has written since the last call."""
        try:
            with open(open_regular_file(self._paths.rank_log(0)), "rb") as file:
                file.seek(self._read)
                data = file.read()
        except OSError:
            return []
        self._read += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [line.decode(errors="replace") for line in whole]

    def failure_text(self) -> str:
        """How it failed, in words; empty where it did not, or was stopped."""
        os.close(self._held)
        record = read_exit(self._paths, self._node_rank)
        if record is None:
            return "its agent is gone"
        if record.failure is None:
            return ""
        return f"{record.failure.reason}: {record.failure.message}"
