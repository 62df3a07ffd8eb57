"""The check of a node, as the agent has it: a program of its own, the node program, and the messages between it and the
programs of the other nodes. Whatever the program does, the agent goes on at its deadline.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Mapping
from queue import SimpleQueue

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.outcome.node_record import NodeRecorder, note
from worldsize.agent.posix import processes
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.state.records import Failure
from worldsize.wings.checks.agent.node_context import FULL
from worldsize.wings.checks.agent.node_program import END, NodeTask, start_program
from worldsize.wings.checks.agent.time_limits import AGENT_MARGIN, overall_limit

_TOPIC = "check"
_AT_MOST = 1 << 16


class Preparation:
    """The check of one node: it begins at once, never fails, and is `ready` when the head has said so, or when it takes
    too long."""

    def __init__(self, launch: NodeLaunch, peers: Peers) -> None:
        self.failure: Failure | None = None
        self.ready = False
        self._launch = launch
        self._peers = peers
        self._notices: list[str] = []
        self._rest = b""
        task = _task(launch, peers.address)
        self._deadline = time.monotonic() + overall_limit(task.mode, task.nodes) + AGENT_MARGIN
        self._socket, self._pid = start_program(task)
        self._to_program: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=self._write, args=(self._socket.dup(),), daemon=True).start()
        peers.listeners[_TOPIC] = self._hear

    def fileno(self) -> int:
        return self._socket.fileno()

    def acknowledge(self) -> None:
        """Pass on what the node program says. A program that has died leaves its node ready."""
        try:
            data = self._socket.recv(_AT_MOST)
        except OSError:
            data = b""
        if not data and not self.ready:
            self._go_on("ended by itself")
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._pass_on(json.loads(line))

    def _pass_on(self, message: Mapping[str, Any]) -> None:
        if "to" in message:
            self._peers.tell(message["to"], _TOPIC, message["text"])
        else:
            self.ready = True
            self._notices = message["notices"]

    def _go_on(self, why: str) -> None:
        """Have the run begin without the check; on the head, for all nodes."""
        note(f"worldsize: the check of this node {why}")
        self.ready = True
        if self._launch.node.node_rank == 0:
            for node_rank in range(1, len(self._launch.world.hosts)):
                self._peers.tell(node_rank, _TOPIC, END)

    def _hear(self, node_rank: int, text: str) -> None:
        self._to_program.put(json.dumps({"from": node_rank, "text": text}).encode() + b"\n")

    def _write(self, connection: socket.socket) -> None:
        """Write what other nodes have said, in a thread: a program that is busy must not stop the agent."""
        with connection:
            while (data := self._to_program.get()) is not None:
                try:
                    connection.sendall(data)
                except OSError:  # the program has ended
                    return

    def deadline(self) -> float | None:
        return self._deadline

    def tick(self, now: float) -> None:
        """Go on without the check, where its time is over."""
        if now >= self._deadline and not self.ready:
            self._go_on("took too long, and was ended")

    def finish(self, recorder: NodeRecorder) -> tuple[Plan, Mapping[str, str]]:
        """Leave plan and environment as they are; write what a person should know as events."""
        for text in self._notices:
            recorder.write_event("notice", text=text)
        self.stop()
        return self._launch.plan, self._launch.environ

    def stop(self) -> list[int]:
        """Kill the node program and all that it has started. A process that waits for a dead file server stays for as
        long as that does."""
        self._peers.listeners.pop(_TOPIC, None)
        self._to_program.put(None)
        killed = processes.trees([self._pid]) if processes.stat_fields(self._pid) is not None else []
        for pid in killed:
            processes.signal_process(pid, signal.SIGKILL)
        self._socket.close()
        return killed

    def close(self) -> None:
        """Leave nothing behind: `stop` was called before."""


def _task(launch: NodeLaunch, address: str) -> NodeTask:
    """What the node program is to do on this node, which others reach at `address`. Its environment is a rank's, but
    shows all of the node's GPUs where each rank would see its own alone."""
    plan, told = launch.plan, launch.plan.options["check"]
    environ = next(launch._replace(plan=plan._replace(visible_devices=False)).ranks()).environment
    return NodeTask(
        launch.node.node_rank,
        tuple(host.name for host in launch.world.hosts),
        launch.world.address if launch.node.node_rank == 0 else address,
        launch.paths.root,
        launch.paths.attempt,
        {name: value for name, value in environ.items() if name not in plan.secrets},
        told.get("asked", {}),
        told.get("mode", FULL),
        tuple(told.get("only", ())),
    )
