"""A command on nodes, on its way, where nothing connects us with them but a directory that they see too.

The command is a directory: order.json and the node program (`NODE_PROGRAM_FILE`), the files in which each node
tells what happens (`agent.node_programs.run_command.FileTransport`), and `lease`, which we change every second for as
long as somebody wants it. Who starts the program on the nodes, and whether they can still be waited for, is the
`NodeCommandBackend`'s business.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from worldsize.agent.node_programs import run_command
from worldsize.agent.node_programs.command_watcher import trouble_log
from worldsize.compute.capabilities import NodeCommand, NodeEvent
from worldsize.compute.node_commands.by_process import GRACE, command_spec
from worldsize.compute.node_commands.file_reader import NodeFileReader
from worldsize.compute.node_commands.files import (
    new_command_name,
    remove_command_directory,
    write_command_directory,
    write_lease,
)
from worldsize.errors import SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exits

PATIENCE = 60.0
"""Seconds that a node may take to begin, once it should; file systems show new files late."""

SILENCE = 20.0
"""Seconds without a sign of life (one comes every two) after which a node is lost."""

_SILENCE_IF_GONE = 6.0
_LAG_IF_GONE = 3.0
_OVERTIME = 6.0
_RENEW, _RENEW_FIRST = 1.0, 0.25
_LOOK = 1.0
_PAUSE = 0.05
_WORDS = 1000
_HINT = "does the node see the shared directory, and has it a Python from 3.8 on?"


class NodeStartStatus(NamedTuple):
    """What is known beside the files.

    begun    nodes should be telling by now
    gone     nodes that will tell nothing more, and why
    notes    what people may want to know, once
    refused  why no node will ever be reached
    """

    begun: bool = True
    gone: Mapping[int, str] = {}
    notes: tuple[str, ...] = ()
    refused: WorldsizeError | None = None


class NodeCommandBackend(Protocol):
    """What has the node program started on the nodes."""

    def start_status(self) -> NodeStartStatus:
        """How it stands. Called about every second, in a thread of its own; may take its time. SubmitAgain: nobody
        could be asked."""

    def release(self, ended: bool) -> None:
        """Nothing may run any more, or be started later. `ended`: every node has told its end."""


def execute_on_run(command: NodeCommand, there: Callable[[str], str]) -> FileCommandStream:
    """On nodes of a run whose plan has `errands`. `there`: what the nodes call a path of ours. StorageError."""
    assert command.paths is not None
    directory = os.path.join(command.paths.errands, new_command_name())
    write_command_directory(directory, command_spec(command, there=there))
    return FileCommandStream(directory, command.nodes, RunCommandBackend(directory, command.paths, command.nodes))


class RunCommandBackend:
    """On nodes of a running run, whose agents find the command in the run's directory."""

    def __init__(self, directory: str, paths: RunPaths, nodes: Sequence[int]) -> None:
        self._directory = directory
        self._paths = paths
        self._nodes = nodes

    def start_status(self) -> NodeStartStatus:
        ended = {each.node_rank: "its agent has ended" for each in read_exits(self._paths, max(self._nodes) + 1)}
        return NodeStartStatus(gone={**ended, **self._troubles()})

    def release(self, ended: bool) -> None:
        pass

    def _troubles(self) -> dict[int, str]:
        found = {}
        for node in self._nodes:
            path = trouble_log(self._directory, node)
            if os.path.exists(path) and os.path.getsize(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    found[node] = file.read().strip()[-_WORDS:]
        return found


class FileCommandStream:
    """`NodeCommandStream` of a staged directory."""

    def __init__(self, directory: str, nodes: Sequence[int], backend: NodeCommandBackend) -> None:
        self._directory = directory
        self._backend = backend
        self._readers = [NodeFileReader(directory, node) for node in nodes]
        self._status = NodeStartStatus(begun=False)
        self._notes: deque[str] = deque()
        self._told_lost: set[int] = set()
        self._stopped: float | None = None
        self._over = False
        self._word = ""
        self._count = 0
        self._writing = threading.Lock()
        self._closed = threading.Event()
        for work in (self._renew, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        deadline = time.monotonic() + timeout
        while True:
            said = self._read_new_events()
            if said:
                return said
            if self._over:
                return None
            if all(reader.is_over for reader in self._readers):
                self._over = True
                if self._stopped is None and not any(reader.up for reader in self._readers):
                    hint = None if self._status.gone else _HINT
                    raise self._status.refused or SubmitRejected(_loss_message(self._readers), "exec", hint)
                return None
            rest = deadline - time.monotonic()
            if rest <= 0:
                return []
            time.sleep(min(_PAUSE, rest))

    def stop(self) -> None:
        self._stopped = self._stopped or time.monotonic()
        self._write(run_command.STOP)

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._stopped = self._stopped or time.monotonic()
        self._write(run_command.NOW)
        deadline = time.monotonic() + GRACE
        while any(reader.up and not reader.is_over for reader in self._readers) and time.monotonic() < deadline:
            self._read_new_events()
            time.sleep(_PAUSE)
        self._closed.set()
        self._backend.release(all(reader.ended for reader in self._readers))
        with self._writing:
            remove_command_directory(self._directory)

    def _read_new_events(self) -> list[NodeEvent]:
        now = time.monotonic()
        said = [NodeEvent(-1, "note", self._notes.popleft().encode()) for _ in range(len(self._notes))]
        for reader in self._readers:
            said += reader.read_events(now)
            if not reader.is_over:
                self._notice_loss(reader, now)
        return said + self._new_losses()

    def _new_losses(self) -> list[NodeEvent]:
        """Told once some node is known to have begun; where none ever does, that is an error."""
        if not any(reader.up for reader in self._readers):
            return []
        found = [reader for reader in self._readers if reader.lost and reader.node not in self._told_lost]
        self._told_lost.update(reader.node for reader in found)
        return [
            NodeEvent(reader.node, "lost", reader.lost.encode())
            for reader in found
            if reader.up or self._stopped is None
        ]

    def _notice_loss(self, reader: NodeFileReader, now: float) -> None:
        """A node is lost when it can tell nothing more, however long it is waited for."""
        status = self._status
        begun = reader.up or status.begun
        why = status.gone.get(reader.node, "") or (status.refused.what if status.refused else "")
        if not (begun or why):
            reader.silence = 0.0
        stopped_for = None if self._stopped is None else now - self._stopped
        if is_lost(reader.up, begun, bool(why), reader.silence, stopped_for):
            reader.lost = why or f"nothing was heard of it for {reader.silence:.0f} s"

    def _renew(self) -> None:
        while not self._closed.wait(_RENEW if all(reader.up for reader in self._readers) else _RENEW_FIRST):
            self._write("")

    def _write(self, word: str) -> None:
        """A word stays, and the lease goes on beside it: a grace may take as long. What cannot be written now is tried
        again in a second."""
        with self._writing:
            if self._closed.is_set():
                return
            self._word = word or self._word
            self._count += 1
            try:
                write_lease(self._directory, (f"{self._word} {self._count}").strip())
            except OSError:
                pass

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                status = self._backend.start_status()
            except (SubmitAgain, OSError):
                status = self._status._replace(notes=())
            except WorldsizeError as error:
                status = NodeStartStatus(refused=error)
            self._notes.extend(status.notes)
            self._status = status
            self._closed.wait(_LOOK)


def is_lost(up: bool, begun: bool, known_gone: bool, silence: float, stopped_for: float | None) -> bool:
    """Whether nothing more is to be expected of a node.

    up           it has begun
    begun        it has, or should have by now
    known_gone   the compute reports that it is gone, which may arrive before its last lines do
    silence      seconds without news
    stopped_for  seconds since the end of the command was asked for; None where it was not
    """
    if stopped_for is not None and (not begun or stopped_for > GRACE + _OVERTIME):
        return True
    patience, if_gone = (SILENCE, _SILENCE_IF_GONE) if up else (PATIENCE, _LAG_IF_GONE)
    return silence > (if_gone if known_gone else patience)


def _loss_message(readers: Sequence[NodeFileReader]) -> str:
    """What became of nodes that never came, each reason once."""
    reasons: dict[str, list[int]] = {}
    for reader in readers:
        reasons.setdefault(reader.lost, []).append(reader.node)
    return "; ".join(
        "node{} {}: {}".format("" if len(nodes) == 1 else "s", ",".join(map(str, nodes)), why)
        for why, nodes in reasons.items()
    )
