"""The node program: a process of the agent that checks its node, and on the head leads the check of all nodes.

It is forked, because starting an interpreter from a file server may take as much time as the whole check. It exchanges
lines of JSON with its agent on one socket: `{"to": N, "text": …}` for another node's program, `{"from": N, "text": …}`
from one, and on the head `{"notices": […]}` once the check is over. It ends when its agent terminates it or has ended.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from queue import Empty, SimpleQueue

from worldsize.agent.outcome.node_record import note, write_or_note
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import NOTICES, STOP, STOP_NOW
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any, NamedTuple, NoReturn
from worldsize.plan.node_names import node_names
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster, Stage
from worldsize.wings.checks.agent.coordinator import PROBES, Coordinator, notices_of
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.probe_runner import error_text, run_probes
from worldsize.wings.checks.agent.record import CheckRecord, write_record
from worldsize.wings.checks.agent.selection import Selection
from worldsize.wings.checks.agent.time_limits import overall_limit

_LONGEST = 1 << 19
"""The maximum size of a report in bytes. Twice this size still fits a message between agents."""

_AT_MOST = 1 << 16
_FILES = 1 << 16


class NodeTask(NamedTuple):
    """The task of a node program.

    hosts    the names of all nodes, by their ranks
    address  the address at which the other nodes reach this one
    root     the run's directory
    environ  the environment of ranks, without the job's secrets
    The others are as in NodeContext and Selection.
    """

    node_rank: int
    hosts: tuple[str, ...]
    address: str
    root: str
    attempt: int
    environ: Mapping[str, str]
    asked: Mapping[str, Any]
    mode: str
    only: tuple[str, ...] = ()

    @property
    def nodes(self) -> int:
        return len(self.hosts)


def start_program(task: NodeTask) -> socket.socket:
    """Start the node program, a forked child of this agent that checks the node as `task` describes. Return the agent's
    end of the socket between them. Raise OSError."""
    own, other = socket.socketpair()
    with other:
        try:
            if os.fork() == 0:
                _become_program(other.detach(), task)
        except OSError:
            own.close()
            raise
    return own


def _become_program(descriptor: int, task: NodeTask) -> NoReturn:
    """Run the node program in this forked process, with the socket `descriptor` to the agent, and exit. First close all
    files that the agent has open, so that the agent's connections end when it ends."""
    try:
        os.setsid()
        processes.end_with_parent(signal.SIGKILL)
        for number in (*STOP, STOP_NOW, signal.SIGCHLD, *NOTICES):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        close_all_but((descriptor, *import_descriptors(sys.path)))
        _NodeProgram(task, socket.socket(fileno=descriptor)).run()
    except Exception as error:  # noqa: BLE001  (no error of a check may end the run: its agent continues without it)
        note(f"worldsize: the check of this node failed: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def import_descriptors(path: Iterable[str]) -> list[int]:
    """Return the open file descriptors in the entries of the module search path `path`, from which modules are
    imported. An agent may have been started by /proc/self/fd/3/agent.pyz, as on HPC Pack."""
    found = (re.match(r"/proc/self/fd/(\d+)(?:/|$)", entry) for entry in path)
    return [int(match[1]) for match in found if match is not None]


def close_all_but(kept: Iterable[int]) -> None:
    """Close every file descriptor of this process from 3 on that is not in `kept`."""
    first = 3
    for descriptor in sorted({number for number in kept if first <= number < _FILES}):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, _FILES)


class _NodeProgram:
    """The program of one node. That of the head has a Coordinator."""

    def __init__(self, task: NodeTask, agent: socket.socket) -> None:
        self._task = task
        self._agent = agent
        self._began = time.monotonic()
        self._events: SimpleQueue[tuple[int, Mapping[str, Any]]] = SimpleQueue()
        self._writing = threading.Lock()
        names = node_names(task.hosts)
        labels = task.hosts if len(set(task.hosts)) == len(names) else [f"node{rank}" for rank in range(len(names))]
        self._labels = tuple(labels)
        host, label = task.hosts[task.node_rank], labels[task.node_rank]
        self._context = NodeContext(
            task.node_rank, task.nodes, host, label, task.root, task.environ, task.asked, task.mode, "/", task.attempt
        )
        self._selection = Selection(task.mode, task.only)
        self._coordinator = self._make_coordinator() if task.node_rank == 0 else None

    def _make_coordinator(self) -> Coordinator:
        task = self._task
        nodes = tuple(CheckedNode(rank, host, self._labels[rank]) for rank, host in enumerate(task.hosts))
        limit = overall_limit(task.mode, task.nodes)
        cluster = Cluster(nodes, task.asked, task.mode)
        return Coordinator(cluster, self._selection, load_stage, self._send_order, self._began, limit)

    def run(self) -> None:
        found = run_probes(self._context, self._selection.probes())
        threading.Thread(target=self._listen, daemon=True).start()
        rows = [row._asdict() for row in found.rows]
        self._report({"stage": PROBES, "rows": rows, "facts": found.facts, "address": self._task.address})
        while self._coordinator is None or not self._coordinator.done:
            self._handle_next()
        self._conclude(self._coordinator)

    def _handle_next(self) -> None:
        """Wait for the next event of the node check and handle it: a message of another node's program, or on the head
        a deadline."""
        coordinator = self._coordinator
        pause = None if coordinator is None else max(0.0, coordinator.deadline() - time.monotonic())
        try:
            sender, message = self._events.get(timeout=pause)
        except Empty:
            sender, message = -1, {}
        if coordinator is None:
            self._obey(message)
            return
        coordinator.hear(sender, message, time.monotonic())
        coordinator.tick(time.monotonic())

    # orders of the head

    def _obey(self, message: Mapping[str, Any]) -> None:
        if "order" in message:
            arguments = (str(message.get("stage")), message["order"])
            threading.Thread(target=self._measure, args=arguments, daemon=True).start()

    def _measure(self, stage: str, order: Mapping[str, Any]) -> None:
        """Execute this node's part of a stage of the node check, as the head's `order` requests, and report the answer,
        or the error, to the head."""
        answer: Mapping[str, Any]
        try:
            answer = load_measure(stage).run(self._context, order)
        except Exception as error:  # noqa: BLE001  (any error of a measurement is its answer)
            answer = {"error": error_text(error)}
        self._report({"stage": stage, "answer": answer})

    def _report(self, message: Mapping[str, Any]) -> None:
        text = json.dumps(message)
        if len(text) > _LONGEST:
            text = json.dumps({"stage": message["stage"], "answer": {"error": "it found more than can be reported"}})
        if self._coordinator is not None:
            self._events.put((0, json.loads(text)))
        else:
            self._write({"to": 0, "text": text})

    def _send_order(self, node_rank: int, message: Mapping[str, Any]) -> None:
        if node_rank != 0:
            self._write({"to": node_rank, "text": json.dumps(message)})
        else:
            self._obey(message)

    def _conclude(self, coordinator: Coordinator) -> None:
        """Write the record of the finished node check on the head and send the notices to the agent, so that the agents
        continue. Then wait until this node's agent terminates this program and the processes that it started."""
        task, seconds = self._task, time.monotonic() - self._began
        rows = tuple(coordinator.rows)
        record = CheckRecord(task.mode, seconds, self._labels, rows)
        paths = RunPaths(task.root, task.attempt)
        write_or_note(lambda: write_record(paths, record), "worldsize: the record of the check cannot be written")
        self._write({"notices": notices_of(rows)})
        threading.Event().wait()

    # the agent

    def _write(self, message: Mapping[str, Any]) -> None:
        with self._writing:
            try:
                self._agent.sendall(json.dumps(message).encode() + b"\n")
            except OSError:  # the agent has ended
                os._exit(0)

    def _listen(self) -> None:
        """Receive messages of other nodes' programs from the agent, in a thread, and queue them as events. Exit when
        the agent has ended."""
        rest = b""
        while data := self._heard():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                try:
                    message = json.loads(line)
                    self._events.put((message["from"], dict(json.loads(message["text"]))))
                except PARSE_ERRORS:  # the node's program is damaged: it counts as late
                    continue
        os._exit(0)

    def _heard(self) -> bytes:
        try:
            return self._agent.recv(_AT_MOST)
        except OSError:  # the agent has ended with data unread
            return b""


def load_stage(module: str) -> Stage:
    """Return the stage of the node check that the module `module` of `stages/` defines."""
    found: Stage = __import__(f"worldsize.wings.checks.agent.stages.{module}", fromlist=("STAGE",)).STAGE
    return found


def load_measure(stage: str) -> Any:
    """Return the module of `measure/` whose `run` executes a node's part of the stage `stage`."""
    return __import__(f"worldsize.wings.checks.agent.measure.{stage}", fromlist=("run",))
