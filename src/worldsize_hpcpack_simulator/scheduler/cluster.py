"""The nodes as the head node knows them: their resources, their groups, and their processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from worldsize_hpcpack_simulator.options import SimulatorOptions
from worldsize_hpcpack_simulator.scheduler.placement import NodeCapacity

GROUPS = {
    "HeadNodes": "The head nodes in the cluster",
    "ComputeNodes": "The compute nodes in the cluster",
    "WCFBrokerNodes": "The broker nodes in the cluster",
    "LinuxNodes": "The Linux nodes in the cluster",
}
_OWN_GROUPS = ("ComputeNodes", "LinuxNodes")
_BOOT = """import sys
sys.path.insert(0, sys.argv[1])
from worldsize_hpcpack_simulator.nodes.worker import main
main(sys.argv[2])"""
_READY = 30.0


class NodeRefused(Exception):
    """An error: a node's process cannot have its own namespaces."""


class SimulatedNode:
    """A compute node. `pid` is its process while it is switched on. `leaving` is true once that has been ordered to
    end. `is_up` is true once it has reported that it is ready."""

    def __init__(self, number: int, name: str, address: str, options: SimulatorOptions) -> None:
        self.number, self.name, self.address = number, name, address
        self.state, self.health = "Offline", "OK"
        self.cores, self.sockets, self.gpus = options.cores, 1, options.gpus
        self.memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1 << 20)
        self.groups = set(_OWN_GROUPS)
        self.since = time.time()
        self.pid: int | None = None
        self.leaving = False
        self.process: asyncio.subprocess.Process | None = None
        self.writer: asyncio.StreamWriter | None = None

    @property
    def is_up(self) -> bool:
        return self.writer is not None

    def enter_state(self, state: str) -> None:
        self.state, self.since = state, time.time()

    def capacity(self, held: int) -> NodeCapacity:
        ready = self.is_up and self.state == "Online" and self.health == "OK"
        return NodeCapacity(
            self.name, self.cores, self.sockets, self.gpus, self.cores - held, ready, tuple(self.groups)
        )

    def send_order(self, **words: object) -> None:
        if self.writer is not None:
            self.writer.write(json.dumps(words).encode() + b"\n")


class Cluster:
    """The nodes of the cluster. `on_message(node, words)` is called with each message of a node, `on_lost(node)` when
    its process has ended."""

    def __init__(self, options: SimulatorOptions, folder: str) -> None:
        self.options, self.folder = options, folder
        self.isolated = options.namespaces
        self.why = "" if options.namespaces else "as asked"
        self.groups = {name: (text, True) for name, text in GROUPS.items()}
        self.nodes: dict[str, SimulatedNode] = {}
        self.on_message: Callable[[SimulatedNode, Mapping[str, Any]], None] = lambda node, words: None
        self.on_lost: Callable[[SimulatedNode], None] = lambda node: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._name_nodes()

    def _name_nodes(self) -> None:
        """Create the objects of the cluster's nodes, which are not started. With namespaces they have host names;
        otherwise their names are addresses, which every program can reach without a resolver."""
        self.nodes = {}
        for number in range(1, self.options.nodes + 1):
            name = f"cn{number:02d}" if self.isolated else f"127.0.0.{number + 1}"
            address = f"127.0.1.{number}" if self.isolated else name
            self.nodes[name] = SimulatedNode(number, name, address, self.options)

    @property
    def link(self) -> str:
        """The path of the share for nodes without their own root directory."""
        return os.path.join(self.folder, self.options.at.strip("/"))

    def node(self, name: str) -> SimulatedNode | None:
        """Return the cluster's node with this name, in any letter case; None if there is none."""
        return next((node for node in self.nodes.values() if node.name.lower() == name.lower()), None)

    async def start(self) -> None:
        """Start the processes of all nodes, and wait until the nodes are online. They have no namespaces if the first
        node cannot have them."""
        first = next(iter(self.nodes.values()))
        try:
            await self.switch_on(first)
        except NodeRefused as error:
            self.isolated, self.why = False, str(error)
            self._name_nodes()
            first = next(iter(self.nodes.values()))
            await self.switch_on(first)
        if not self.isolated:
            os.symlink(os.path.realpath(self.options.share), self.link)
        await asyncio.gather(*(self.switch_on(node) for node in self.nodes.values() if node is not first))
        for node in self.nodes.values():
            node.enter_state("Online")

    async def switch_on(self, node: SimulatedNode) -> None:
        """Start the process of a node, and wait until it reports that it is ready. Raise NodeRefused if it cannot have
        namespaces."""
        ours, theirs = socket.socketpair()
        with theirs:
            node.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", _BOOT, _source_directory(), json.dumps(self._words(node))),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        node.pid = node.process.pid
        reader, writer = await asyncio.open_connection(sock=ours)
        line = await asyncio.wait_for(reader.readline(), _READY)
        words = json.loads(line) if line else {"tell": "refused", "why": "its process ended"}
        if words["tell"] != "ready":
            writer.close()
            await node.process.wait()
            node.pid = node.process = None
            raise NodeRefused(words["why"])
        node.writer, node.health = writer, "OK"
        self.run_in_background(self._read(node, reader))

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the coroutine `work` as a task that continues while requests are answered. `stop` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, node: SimulatedNode, reader: asyncio.StreamReader) -> None:
        while line := await _read_line(reader):
            self.on_message(node, json.loads(line))
        process, writer = node.process, node.writer
        node.writer = None
        if writer is not None:
            writer.close()
        if process is not None:
            await process.wait()
        node.pid = node.process = None
        node.leaving = False
        self.on_lost(node)

    def switch_off(self, node: SimulatedNode) -> None:
        if node.process is not None:
            node.leaving = True
            node.process.send_signal(signal.SIGTERM)

    async def stop(self, patience: float = 5.0) -> None:
        """Stop the processes of all nodes, and wait at most `patience` seconds for their end."""
        for node in self.nodes.values():
            self.switch_off(node)
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=patience)

    def _words(self, node: SimulatedNode) -> dict[str, object]:
        share = os.path.realpath(self.options.share)
        kept = [os.path.realpath(path) for path in (self.folder, sys.prefix, sys.base_prefix, _source_directory())]
        return {
            "name": node.name,
            "folder": os.path.join(self.folder, node.name),
            "share": share,
            "at": self.options.at,
            "hosts": {each.name: each.address for each in self.nodes.values()},
            "isolated": self.isolated,
            "mounted": node.name not in self.options.unmounted,
            "hidden": not any(os.path.commonpath((share, path)) == share for path in kept),
        }


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except OSError:
        return b""


def _source_directory() -> str:
    """Return the directory from which Python imports the package of the simulator."""
    path = os.path.abspath(__file__)
    for _ in range(3):
        path = os.path.dirname(path)
    return path
