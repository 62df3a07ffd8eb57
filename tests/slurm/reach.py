"""Finding a cluster's processes from the login side, and starting further ones among them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from slurm import config, machine, processes
from slurm.config import Flavour, Network
from slurm.groups import Hierarchy
from slurm.processes import Process

HERE = os.path.dirname(os.path.abspath(__file__))
GUARD = "guard.py"
NODE = "node.py"
MARK = "cluster.json"
PYTHON = [sys.executable, "-I", "-S"]
ALONE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--mount", "--uts", "--ipc"]
CONTROLLER_PORT = 6817
DATABASE_PORT = 6819


class ClusterError(Exception):
    """The cluster did not do what a test needs; with the ends of its logs."""


class Reach:
    """A cluster by its folder. Nothing is remembered of its processes: every answer is the kernel's."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        try:
            with open(os.path.join(folder, MARK), encoding="utf-8") as file:
                facts: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            raise ClusterError("there is no cluster in %s" % folder) from None
        self.flavour = Flavour(**facts["flavour"])
        self.network = Network(facts["number"])
        self.visible: list[str] = facts["visible"]
        self.group = Hierarchy(*facts["group"])
        self.memory: str = facts["memory"]
        self.shared = self.path("shared")
        self.node_names = config.node_names(self.flavour)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def local(self, *names: str) -> str:
        """The same for what only the controller's machine has in its folder `local`, as it can be reached from here."""
        guard = self.guard()
        return os.path.join("/proc/%d/root" % guard.pid if guard else "/nowhere", self.path("local", *names)[1:])

    @property
    def slurm_conf(self) -> str:
        return self.path("etc", "slurm.conf")

    # Who is there

    def guard(self) -> Process | None:
        """Process 1 of the whole cluster; None once it is gone."""
        return processes.first_of_space(GUARD, [self.folder])

    def power(self, node: str) -> Process | None:
        """Process 1 of a node; None while it is off."""
        if node not in self.node_names:
            raise ClusterError("there is no %s" % node)
        return processes.first_of_space(NODE, [self.folder, node])

    def is_booted(self, node: str) -> bool:
        """Whether process 1 of a node has done all it does before it waits for children."""
        first = self.power(node)
        return first is not None and first.name == processes.BOOTED

    def daemons(self, name: str, node: str | None = None) -> list[Process]:
        """Those of that name on a node, or on the controller's machine.

        One that forks and ends while /proc is read is missed, and so is its child: nobody is looked for twice.
        """
        first = self.guard() if node is None else self.power(node)
        if first is None:
            return []
        looks = ([each for each in processes.living_in(first.space) if each.name == name] for _ in range(2))
        return next(filter(None, looks), [])

    def inside(self, *only: str) -> list[str]:
        """What stands in front of a command that shall run on the controller's machine."""
        guard = self.guard()
        if guard is None:
            raise ClusterError("the cluster in %s is gone" % self.folder)
        return processes.enter(guard.pid, *only)

    # Starting something

    @property
    def _environ(self) -> dict[str, str]:
        return {**machine.ENVIRON, "SLURM_CONF": self.slurm_conf}

    def run(self, argv: Sequence[str]) -> None:
        """A command that ends, or a daemon that goes into the background by itself."""
        with tempfile.TemporaryFile() as words:
            done = subprocess.run(
                argv, env=self._environ, cwd="/", timeout=30, stdin=subprocess.DEVNULL, stdout=words, stderr=words
            )
            words.seek(0)
            if done.returncode:
                said = words.read().decode(errors="replace")
                raise ClusterError("%s: exit code %d: %s" % (" ".join(argv), done.returncode, said))

    def launch(self, argv: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        """A process that stays, on the controller's machine. What is returned is its starter, which soon ends."""
        command = [*self.inside(), "setsid", "sh", "-c", '"$@" &', "sh", *argv]
        with open(self.path("log", log + ".out"), "ab") as file:
            return subprocess.Popen(
                command, env=self._environ, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def boot_node(self, name: str) -> subprocess.Popen[bytes]:
        address = self.network.node(self.node_names.index(name) + 1)
        arguments = [self.folder, name, address, str(self.group.version), self.group.folder, self.memory, *self.visible]
        return self.launch([*ALONE, *PYTHON, os.path.join(HERE, NODE), *arguments], name)

    def link(self, node: str, verb: str, *words: str) -> None:
        """`ip link VERB` on the bridge's end of a node's cable; that it is not there is no error."""
        self.links([node], verb, *words)

    def links(self, nodes: Sequence[str], verb: str, *words: str) -> None:
        """The same for several nodes, with one program."""
        lines = ["link %s %s\n" % (verb, " ".join([node, *words])) for node in nodes]
        command = [*self.inside("--net"), "ip", "-force", "-batch", "-"]
        subprocess.run(command, input="".join(lines).encode(), stderr=subprocess.DEVNULL)

    # Waiting

    def until(self, true: Callable[[], bool], complaint: str, timeout: float = 30, every: float = 0.01) -> None:
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                raise ClusterError("%s within %g s\n%s" % (complaint, timeout, self.logs()))
            time.sleep(every)

    def listens(self, port: int) -> bool:
        """Whether something on the controller's machine takes connections there."""
        try:
            socket.create_connection((self.network.controller, port), timeout=1).close()
        except OSError:
            return False
        return True

    def logs(self, lines: int = 15) -> str:
        """The ends of all its logs."""
        told = []
        for name in sorted(os.listdir(self.path("log"))):
            if name.endswith((".log", ".out")):
                with open(self.path("log", name), encoding="utf-8", errors="replace") as file:
                    told += ["--- " + name, *file.read().splitlines()[-lines:]]
        return "\n".join(told)
