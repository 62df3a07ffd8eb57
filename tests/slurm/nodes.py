"""A cluster's nodes and its controller, and all that can happen to them."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from slurm import boot, processes
from slurm.processes import Process
from slurm.reach import ClusterError, Reach

UP = ("idle", "mixed", "allocated", "completing")
DAEMONS = ("slurmd", "slurmstepd")
PATIENCE = 15.0
SCRUBBED = ("SLURM_", "SLURMD_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SACCT_", "PMI", "MUNGE")


class Nodes(Reach):
    """What Slurm says of the nodes, and what an accident does to them and to the controller.

    controller_crashed  this process has killed it, and the cluster was not left as found since
    """

    controller_crashed = False

    @property
    def environ(self) -> dict[str, str]:
        """What a process on the login side needs; a fresh copy of this process's, without traces of another job."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED)}
        return {**kept, "SLURM_CONF": self.slurm_conf}

    def command(self, *argv: str, timeout: float = 30, check: bool = True, **more: Any) -> str:
        """What a command on the login side prints; a failure is an error with its words."""
        done = subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=timeout, **more)
        if check and done.returncode:
            raise ClusterError("%s: exit code %d: %s%s" % (" ".join(argv), done.returncode, done.stderr, done.stdout))
        return str(done.stdout)

    def states(self) -> dict[str, str]:
        """Node → what sinfo calls it: idle, mixed, allocated, completing, down, down*, drained, …"""
        lines = self.command("sinfo", "--noheader", "--Node", "--partition=main", "--format=%N %T").splitlines()
        return dict(line.split() for line in lines)

    # Nodes, and what can happen to them

    def processes(self, node: str) -> list[Process]:
        """Who lives on a node beside its own daemons: what jobs have started, or left."""
        first = self.power(node)
        if first is None:
            return []
        there = processes.living_in(first.space)
        return [process for process in there if process.inner != 1 and process.name not in DAEMONS]

    def on_node(self, node: str, argv: Sequence[str]) -> list[str]:
        """The command that runs `argv` on a node, as root and beside Slurm, from /."""
        first = self.power(node)
        if first is None:
            raise ClusterError("%s is off" % node)
        own = [os.path.join(each, node) for each in (self.group.folder, self.memory) if each]
        if not own:
            return [*processes.enter(first.pid), *argv]
        joining = 'for each in $0; do echo 0 > "$each/cgroup.procs" || exit; done; exec "$@"'
        entering = processes.enter(first.pid, *processes.ALL, "--cgroup")
        return ["sh", "-c", joining, " ".join(own), *entering, *argv]

    def power_off(self, node: str) -> None:
        """As if its plug were pulled: its processes, memory and address are gone at once; Slurm has to find out."""
        self.link(node, "delete")
        first = self.power(node)
        if first is not None:
            end_process(first.pid, signal.SIGKILL, 10)

    def power_on(self, node: str, wait: float = 30) -> None:
        """Boots it, with an empty /tmp; Slurm has it back on return, unless `wait` is 0."""
        if self.power(node) is None:
            self.link(node, "delete")
            self.boot_node(node).wait()
        self._wait_up(node, wait)

    def cut_network(self, node: str) -> None:
        """Its cable is out: it runs on, but hears and reaches nobody."""
        self.link(node, "set", "down")

    def restore_network(self, node: str) -> None:
        self.link(node, "set", "up")

    def kill_slurmd(self, node: str, number: int = signal.SIGKILL) -> None:
        """Jobs go on: each has a slurmstepd of its own."""
        _signal(self.daemons("slurmd", node), number)
        if number != signal.SIGSTOP:
            self.until(lambda: not self.daemons("slurmd", node), "slurmd did not end")

    def restart_slurmd(self, node: str, wait: float = 30) -> None:
        """Starts it where it does not run, lets it go on where it was stopped. A node that boots starts its own."""
        self.until(lambda: self.is_booted(node), "%s did not boot" % node)
        running = self.daemons("slurmd", node)
        _signal(running, signal.SIGCONT)
        if not running:
            self.run(self.on_node(node, ["slurmd"]))
        self._wait_up(node, wait)

    def _wait_up(self, node: str, wait: float) -> None:
        if wait:
            self.until(lambda: self.states()[node] in UP, "%s did not come back" % node, wait)

    # The controller

    def stop_controller(self, number: int = signal.SIGTERM) -> None:
        """SIGTERM: it saves and ends (24.11 sometimes waits for ever, and is killed then, as by systemd); SIGSTOP:
        it takes connections but never answers.

        SIGKILL: it crashes, and what it was told in its last five seconds may be forgotten, even whole jobs.
        """
        self.controller_crashed = self.controller_crashed or number == signal.SIGKILL
        for process in self.daemons("slurmctld"):
            if number == signal.SIGTERM:
                end_process(process.pid, number, PATIENCE)
            else:
                os.kill(process.pid, number)
        if number != signal.SIGSTOP:
            self.until(lambda: not self.daemons("slurmctld"), "slurmctld did not end")

    def start_controller(self) -> None:
        """Starts it, or lets it go on after SIGSTOP; it answers on return."""
        running = self.daemons("slurmctld")
        _signal(running, signal.SIGCONT)
        if not running:
            boot.boot_controller(self)
        self.until(lambda: "UP" in self.command("scontrol", "ping", check=False), "slurmctld did not answer")


def end_process(pid: int, number: int, patience: float) -> None:
    """Sends a signal and waits until the process is gone, with SIGKILL if that takes longer."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for sent in (number, signal.SIGKILL):
            signal.pidfd_send_signal(watched, sent)
            if select.select([watched], [], [], patience)[0]:
                return
    except ProcessLookupError:
        pass
    finally:
        os.close(watched)


def _signal(daemons: Iterable[Process], number: int) -> None:
    """A daemon that has just been started is two processes for a moment: the first ends, and the second stays."""
    for process in daemons:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
