"""A real Slurm cluster of namespaces on this machine: `Cluster` for tests, and a program.

python tests/slurm/cluster.py start [--dir DIR] …    starts one that stays until `stop`
                              run DIR -- COMMAND…    a command as on its login node
                              stop DIR
                              list | sweep | check
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

if not __package__:
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from slurm import boot, machine, processes, registry
from slurm.config import Flavour
from slurm.nodes import Nodes, end_process
from slurm.processes import Process
from slurm.reach import GUARD, ClusterError

__all__ = ["Cluster", "ClusterError", "Flavour", "Process", "sweep"]

OVER = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("BOOT_FAIL", "DEADLINE", "PREEMPTED", "REVOKED"),
}
DEFAULT = Flavour()
STUCK = 2.0


class Cluster(Nodes):
    """A running cluster. All who have its folder see the same one.

    folder      holds everything of it, and goes with it
    shared      a folder that the login side and all nodes see, for runs and code
    node_names  node1, node2, …
    """

    @classmethod
    def start(
        cls,
        flavour: Flavour = DEFAULT,
        folder: str | None = None,
        visible: Iterable[str] = (),
        owner: int | None = None,
    ) -> Cluster:
        """A new one, all its nodes idle. It ends when process `owner` (default: this one; 0: nobody) is gone.

        `folder` must be new or empty. `visible` are further folders under /tmp or /dev/shm that the nodes shall see.
        """
        missing = machine.missing(flavour.accounting)
        if missing:
            raise ClusterError("; ".join(missing))
        sweep()
        folder = boot.new_folder(folder)
        boot.guarded(folder, flavour, visible, os.getpid() if owner is None else owner)
        cluster = cls(folder)
        try:
            boot.boot(cluster)
            cluster.wait_idle()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self, patience: float = 120) -> None:
        """Nothing of it is left: no process, link, mount or file."""
        guard = self.guard()
        if guard is not None:
            end_process(guard.pid, signal.SIGTERM, patience)
        boot.reap_guards()
        sweep()
        if os.path.exists(self.folder):
            raise ClusterError("%s is still there" % self.folder)

    # From the login side

    def login_argv(self, argv: Sequence[str]) -> list[str]:
        """The same command on a login node called `login`, where the nodes' names resolve."""
        script = 'mount --bind "$0" /etc/hosts && hostname login && exec "$@"'
        return ["unshare", "--mount", "--uts", "sh", "-c", script, self.path("etc", "hosts"), *argv]

    def idle(self) -> bool:
        """Whether every node is, and no job is queued, running or completing."""
        queued = self.command("squeue", "--noheader", "--states=all", "--format=%T").split()
        return set(queued) <= OVER and set(self.states().values()) == {"idle"}

    def wait_idle(self, timeout: float = 30) -> None:
        """Also waits for a controller that does not answer yet."""
        self.until(patiently(self.idle), "not all nodes became idle", timeout)

    def cancel_everything(self) -> bool:
        """Whether every job was over before."""
        jobs = [
            line.split() for line in self.command("squeue", "--noheader", "--states=all", "--format=%A %T").splitlines()
        ]
        left = {(number, state) for number, state in jobs if state not in OVER}
        ids = {number for number, state in left if state != "COMPLETING"}
        if ids:
            self.command("scancel", *sorted(ids))
        return not left

    # After a test

    def restore(self, timeout: float = 60) -> None:
        """Undoes every fault, cancels every job; all nodes are idle on return. A late controller is waited for."""
        self.start_controller()
        self.links(self.node_names, "set", "up")
        for node in self.node_names:
            if self.power(node) is None:
                self.power_on(node, 0)
            else:
                self.restart_slurmd(node, 0)

        stuck = time.monotonic() + STUCK

        def restored() -> bool:
            nonlocal stuck
            over = self.cancel_everything()
            states = self.resume()
            if time.monotonic() > stuck:
                self.give_up_empty()
                stuck += STUCK
            return over and set(states.values()) == {"idle"}

        self.until(patiently(restored), "not all nodes became idle", timeout, 0.03)

    def give_up_empty(self) -> None:
        """Nodes held by jobs of which nothing is left: what a controller that was away was told in vain, it is told
        again after most of a minute. They are down until they are resumed."""
        for node, state in self.states().items():
            if state in ("completing", "mixed", "allocated") and not self.processes(node):
                self.command("scontrol", "update", "NodeName=" + node, "State=DOWN", "Reason=stuck", check=False)

    def clear_tmp(self) -> None:
        """Removes what killed programs have left in the nodes' own /tmp."""
        for node in self.node_names:
            first = self.power(node)
            for entry in os.scandir("/proc/%d/root/tmp" % first.pid) if first else ():
                if entry.name not in machine.shown():
                    (shutil.rmtree if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)

    def resume(self) -> dict[str, str]:
        """Takes back what an administrator may have done to nodes and partitions; how the nodes were before."""
        lines = self.command("sinfo", "--noheader", "--all", "--Node", "--format=%R %a %N %T").splitlines()
        words = [line.split() for line in lines]
        for partition in sorted({word[0] for word in words if word[1] != "up"}):
            self.command("scontrol", "update", "PartitionName=" + partition, "State=UP")
        states = {node: state for _, _, node, state in words}
        for node, state in states.items():
            if state.startswith(("drain", "down", "fail")) and not state.endswith("*"):
                self.command("scontrol", "update", "NodeName=" + node, "State=RESUME", check=False)
        return states


def patiently(true: Callable[[], bool]) -> Callable[[], bool]:
    """The same; no where Slurm does not answer in time."""

    def answered() -> bool:
        try:
            return true()
        except ClusterError:
            return False

    return answered


def sweep(everything: bool = False) -> list[str]:
    """Ends clusters whose owner is gone (or all), and removes what dead ones have left; their folders."""
    swept = []
    for found in registry.known():
        if not (everything or found.orphaned):
            continue
        guard = processes.first_of_space(GUARD, [found.folder]) if found.alive else None
        if guard is not None:
            end_process(guard.pid, signal.SIGTERM, 10)
        registry.forget(found)
        swept.append(found.folder)
    return swept


if __name__ == "__main__":
    from slurm.program import main

    sys.exit(main(sys.argv[1:]))
