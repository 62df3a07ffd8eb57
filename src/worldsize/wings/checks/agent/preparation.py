"""The agent's side of the check of a node: it starts the node program, and passes messages between it and the programs
of the other nodes. The agent continues at its deadline, regardless of the program.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from queue import SimpleQueue

from worldsize.agent.control.link import MAX_LINE
from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.posix import processes
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.state.notices import NODE
from worldsize.state.records import Failure
from worldsize.wings.checks.agent.coordinator import row_of_notice
from worldsize.wings.checks.agent.node_context import FULL
from worldsize.wings.checks.agent.node_program import NodeTask, start_program
from worldsize.wings.checks.agent.time_limits import AGENT_MARGIN, overall_limit

_TOPIC = "check"
_END = "end"
"""The message of the head's agent to the others once the check is over."""

_OF_RANKS_ALONE = ("WORLDSIZE_ERROR_FILE", "TORCHELASTIC_ERROR_FILE")
"""Variables that name the file for a rank's exception. An exception of a program of the check is not one of a rank."""

_AT_MOST = 1 << 16
_LONGEST_LINE = MAX_LINE - (1 << 13)
"""The maximum size in bytes of a line that fits a message between agents. A longer line would break its node's
connection."""


def _most_said(nodes: int) -> int:
    """Return the maximum number of bytes that the node program may send to its agent in total, for a check of `nodes`
    nodes. More than this shows a program that is out of control."""
    return (1 << 22) + (nodes << 16)


class Preparation:
    """The check of one node. It begins at once and never fails. It is `ready` when the head reports the end of the
    check, when its program has ended or sends invalid data, or when it takes too long."""

    def __init__(self, launch: NodeLaunch, peers: Peers) -> None:
        self.failure: Failure | None = None
        self.ready = False
        self._launch = launch
        self._peers = peers
        self._notices: list[str] = []
        self._rest = b""
        self._said = 0
        self._deadline: float | None = None
        self._socket: socket.socket | None = None
        self._to_program: SimpleQueue[bytes | None] = SimpleQueue()
        self._before = set(processes.descendants())
        peers.listeners[_TOPIC] = self._hear
        try:
            self._start(_task(launch, peers.address))
        except Exception as error:  # noqa: BLE001  (perhaps no free process or descriptor: the run goes ahead)
            self._go_on(f"could not be started: {type(error).__name__}: {error}")

    def _start(self, task: NodeTask) -> None:
        self._deadline = time.monotonic() + overall_limit(task.mode, task.nodes) + AGENT_MARGIN
        self._socket = start_program(task)
        threading.Thread(target=self._write, args=(self._socket.dup(),), daemon=True).start()

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    # messages of the node program

    def acknowledge(self) -> None:
        """Read the data that the node program has sent to this agent, and pass on its messages to other nodes. If the
        program has died or sends invalid data, the node becomes ready without the check."""
        assert self._socket is not None
        try:
            data = self._socket.recv(_AT_MOST)
        except OSError:
            data = b""
        if self.ready:
            return
        self._said += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                self._take(line)
        except PARSE_ERRORS as error:
            self._go_on(f"sent an invalid message: {type(error).__name__}: {error}")
        if not data:
            self._go_on("ended by itself")
        elif self._said > _most_said(len(self._launch.world.hosts)) or len(self._rest) > 2 * _LONGEST_LINE:
            self._go_on("sent too much, and was terminated")

    def _take(self, line: bytes) -> None:
        """Handle a line that the node program has sent: the notices at the end of the check, or a message for another
        node. A message that is too long is dropped, so that its node counts as late."""
        message = json.loads(line)
        if "to" not in message:
            self._notices = list(map(str, message["notices"]))
            self._go_on()
        elif len(line) <= _LONGEST_LINE:
            self._peers.tell(int(message["to"]), _TOPIC, str(message["text"]))

    def _go_on(self, trouble: str = "") -> None:
        """Mark this node as ready to start its ranks, because the check is over, or in spite of `trouble` with the
        check. The head's agent reports the end of the check to all other nodes."""
        if self.ready:
            return
        if trouble:
            host = self._launch.world.hosts[self._launch.node.node_rank].name
            self._notices = [f"{host}: the check of this node {trouble}"]
            if not self._is_head:
                self._peers.tell(0, _TOPIC, json.dumps({"gone": f"the check of this node {trouble}"}))
        self.ready = True
        for node_rank in range(1, len(self._launch.world.hosts)) if self._is_head else ():
            self._peers.tell(node_rank, _TOPIC, _END)

    @property
    def _is_head(self) -> bool:
        return self._launch.node.node_rank == 0

    # messages of other nodes

    def _hear(self, node_rank: int, text: str) -> None:
        """Pass on a message of another node's agent, `text`, to this node's program. At the message of the check's end,
        continue. The head's agent answers a message that arrives after the end of the check with that end."""
        if text == _END:
            self._go_on()
        elif not self.ready:
            self._to_program.put(json.dumps({"from": node_rank, "text": text}).encode() + b"\n")
        elif self._is_head:
            self._peers.tell(node_rank, _TOPIC, _END)

    def _write(self, connection: socket.socket) -> None:
        """Write the messages of other nodes to the node program's socket `connection`, in a thread, because a busy
        program must not block the agent."""
        with connection:
            while (data := self._to_program.get()) is not None:
                try:
                    connection.sendall(data)
                except OSError:  # the program has ended
                    return

    # deadline and end

    def deadline(self) -> float | None:
        return self._deadline

    def tick(self, now: float) -> None:
        """Continue without the node check if its deadline has passed at the time `now`."""
        if self._deadline is not None and now >= self._deadline:
            self._go_on("took too long, and was terminated")

    def finish(self, recorder: NodeRecorder) -> NodeLaunch:
        """Write the notices of the node check for the user as events of the run, with `recorder`. Return the launch of
        this node's ranks unchanged."""
        for text in self._notices:
            recorder.write_event("notice", id=row_of_notice(text) or NODE, text=text)
        return self._launch

    def stop(self) -> list[int]:
        """Kill the node program and all processes that it has started, even if it has ended before. These are all
        processes that this agent has started since the beginning of the check. Return their pids. A process that waits
        for a dead file server remains while it waits."""
        killed: list[int] = []
        while found := [pid for pid in self._started_meanwhile() if pid not in killed]:
            for pid in found:
                processes.signal_process(pid, signal.SIGKILL)
            killed += found  # a process that is killed starts no other, so that there is an end
        self._to_program.put(None)
        if self._socket is not None:
            shut_down(self._socket)
        return killed

    def _started_meanwhile(self) -> list[int]:
        """Return the pids of the node check's processes, including those whose parent is now this agent. Processes that
        existed before the check, such as those of a setup line, are left out."""
        return processes.trees(pid for pid in processes.children() if pid not in self._before)

    def close(self) -> None:
        """Do nothing: `stop` was called before and has removed everything that belongs to the check."""


def shut_down(connection: socket.socket) -> None:
    """Close the socket to the node program, and wake a thread that waits to write to it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the other side has shut it down already
        pass
    connection.close()


def _task(launch: NodeLaunch, address: str) -> NodeTask:
    """Return the NodeTask for the program that checks this node, which others reach at `address`. Its environment is
    that of a rank, but shows all of the node's GPUs even if each rank sees only its own."""
    plan, told = launch.plan, launch.plan.options["check"]
    environ = next(launch._replace(plan=plan._replace(visible_devices=False)).ranks()).environment
    return NodeTask(
        launch.node.node_rank,
        tuple(host.name for host in launch.world.hosts),
        launch.world.address if launch.node.node_rank == 0 else address,
        launch.paths.root,
        launch.paths.attempt,
        {name: value for name, value in environ.items() if name not in (*plan.secrets, *_OF_RANKS_ALONE)},
        told.get("asked", {}),
        told.get("mode", FULL),
        tuple(told.get("only", ())),
    )
