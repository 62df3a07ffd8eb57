"""A running command on nodes whose only connection to this machine is a directory that both see.

The command is a directory with order.json and the node program (`NODE_PROGRAM_FILE`), a file for each node in which it
reports events (`FileTransport` of `agent/transports.py`), and `lease`, which this client changes every second while the
command is wanted. The program is started by the agents of a run, or as a job of the compute.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from worldsize.common.atomic_files import open_regular_file, read_tail
from worldsize.compute.capabilities import NodeCommand, NodeEvent, NodeStartStatus
from worldsize.errors import SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exits
from worldsize.wings.node_commands.agent import transports
from worldsize.wings.node_commands.agent.command_watcher import trouble_log
from worldsize.wings.node_commands.by_process import GRACE, command_spec, parse_event
from worldsize.wings.node_commands.files import (
    new_command_name,
    new_command_path,
    write_command_directory,
    write_lease,
)

PATIENCE = 60.0
"""Seconds that a node may take to begin once it should; file systems show new files late."""

SILENCE = 20.0
"""Seconds without a sign of life (one comes every second) after which a node is lost."""

LAG = 5.0
"""Seconds without news after which a node that is known to be gone is lost, since its last lines may arrive late."""

_OVERTIME = 6.0
_RENEW, _RENEW_FIRST = 1.0, 0.25
_LOOK = 1.0
_PAUSE = 0.05
_READINGS = 200
_CHUNK = 2 << 20
_WORDS = 1000
_HINT = "does the node see the shared directory, and does it have Python 3.8 or newer?"


class CommandJob(Protocol):
    """A scheduler's job that executes node programs. `FileCommandStream` calls its methods."""

    def start_status(self) -> NodeStartStatus: ...

    def release(self, ended: bool) -> None: ...


def execute_on_run(command: NodeCommand, there: Callable[[str], str]) -> FileCommandStream:
    """Start a user's command on nodes of a run whose plan has `errands`, by writing its files to the run's directory,
    where the run's agents find them. Return the stream of its events. `there` converts a path of this machine into a
    path of the nodes. Raise StorageError if the command cannot be written."""
    paths = command.paths
    assert paths is not None
    directory = os.path.join(paths.errands, new_command_name())
    write_command_directory(directory, command_spec(command, there=there))
    return FileCommandStream(directory, command.nodes, lambda: _start_status(directory, paths, command.nodes))


def execute_by_job(
    command: NodeCommand, share: str, there: Callable[[str], str], submit: Callable[[str], CommandJob]
) -> FileCommandStream:
    """Start a user's command on nodes of its own, without a run, and return the stream of its events. `submit` receives
    the command's directory, below `share`, and submits a job that executes the node program in this directory on each
    node, with the directory and the node's number as arguments. `there` is as in `execute_on_run`. Raise StorageError
    if the command cannot be written. Errors of `submit` are raised as they are."""
    directory = new_command_path(share)
    write_command_directory(directory, command_spec(command, there=there))
    try:
        job = submit(directory)
    except BaseException:
        transports.remove_directory(directory)
        raise
    return FileCommandStream(directory, command.nodes, job.start_status, job.release)


def _start_status(directory: str, paths: RunPaths, nodes: Sequence[int]) -> NodeStartStatus:
    ended = {each.node_rank: "its agent has ended" for each in read_exits(paths, max(nodes) + 1)}
    said = {node: read_tail(trouble_log(directory, node), _WORDS).decode(errors="replace").strip() for node in nodes}
    return NodeStartStatus(gone={**ended, **{node: text for node, text in said.items() if text}})


class NodeFile:
    """The file with the reports of one node, which is read while it grows.

    has_begun  whether the node has reported an event
    is_over    whether no more is expected: the node has reported its end, or is considered lost
    silence    the time in which the file had nothing new; time in which it could not be read counts less
    """

    def __init__(self, directory: str, node: int) -> None:
        self.node = node
        self.has_begun = self.has_ended = False
        self.lost = ""
        self.silence = transports.Silence()
        self._path = os.path.join(directory, transports.node_file_name(node))
        self._offset = 0
        self._rest = b""

    @property
    def is_over(self) -> bool:
        return self.has_ended or bool(self.lost)

    def read_events(self, now: float) -> list[NodeEvent]:
        """Return the events (output, end) of the command that the node has written to its file since the last call.
        `now` is the monotonic time."""
        *lines, self._rest = (self._rest + self._read(now)).split(b"\n")
        said = [event for event in map(parse_event, lines) if event is not None]
        self.has_begun = self.has_begun or bool(said)
        self.has_ended = any(event.kind == "end" for event in said)
        return said

    def _read(self, now: float) -> bytes:
        """Return the next bytes of the node's file that can be read. If a file system shows a file's new size before
        its bytes, the bytes are zeros, which no line contains. They are read again later."""
        try:
            with open(open_regular_file(self._path), "rb") as file:
                file.seek(self._offset)
                data = file.read(_CHUNK).partition(b"\0")[0]
        except OSError as error:
            self.silence.look(now, False, transports.silence_weight(error))
            return b""
        self.silence.look(now, bool(data))
        self._offset += len(data)
        return data


class FileCommandStream:
    """The stream of events (`NodeCommandStream`) of a command on nodes that is carried by files in a directory.

    `status` returns the state of the nodes. It is called about every second in a thread of its own, and may be slow. It
    raises SubmitAgain if the state is not known now, and another error if no node will ever be reached. `release`
    receives whether every node has reported its end. After it, no process may run any more or be started later.
    """

    def __init__(
        self,
        directory: str,
        nodes: Sequence[int],
        status: Callable[[], NodeStartStatus],
        release: Callable[[bool], None] = lambda ended: None,
    ) -> None:
        self._directory = directory
        self._ask = status
        self._release = release
        self._files = [NodeFile(directory, node) for node in nodes]
        self._status = NodeStartStatus(begun=False)
        self._told = ""
        self._refused: WorldsizeError | None = None
        self._stopped_at: float | None = None
        self._word = "go"
        self._count = 0
        self._due = 0.0
        self._writing = threading.Lock()
        self._closed = threading.Event()
        for work in (self._renew, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        deadline = time.monotonic() + timeout
        while not (said := self._read_new_events()):
            if all(file.is_over for file in self._files):
                self._require_begun()
                return None
            if time.monotonic() >= deadline:
                return []
            time.sleep(_PAUSE)
        return said

    def stop(self) -> None:
        self._request_end(transports.STOP)

    def close(self) -> None:
        if self._closed.is_set():
            return
        self._request_end(transports.NOW)
        deadline = time.monotonic() + GRACE
        while any(file.has_begun and not file.is_over for file in self._files) and time.monotonic() < deadline:
            self.read_events(_PAUSE)
        self._closed.set()
        self._release(all(file.has_ended for file in self._files))
        with self._writing:
            transports.remove_directory(self._directory)

    def _request_end(self, word: str) -> None:
        self._stopped_at = self._stopped_at or time.monotonic()
        self._word, self._due = word, 0.0
        self._change_lease()

    def _read_new_events(self) -> list[NodeEvent]:
        now = time.monotonic()
        note = self._status.note
        said = [NodeEvent(-1, "note", note.encode())] if note not in ("", self._told) else []
        self._told = note or self._told
        if now < self._due:
            return said
        self._due = now + max(_PAUSE, len(self._files) / _READINGS)
        for file in self._files:
            if not file.is_over:
                said += file.read_events(now) or self._losses(file, now)
        return said

    def _losses(self, file: NodeFile, now: float) -> list[NodeEvent]:
        """Decide whether the node of `file` is lost, that is, can never report more. If so, mark it as lost and return
        a list with the event for that; else an empty list. No event is returned for a node that had not begun when the
        end was requested."""
        refused = self._refused  # another thread changes this
        begun = file.has_begun or self._status.begun
        why = self._status.gone.get(file.node, "") or (refused.what if refused else "")
        if not (begun or why):
            file.silence.look(now, True)
        stopped_for = None if self._stopped_at is None else now - self._stopped_at
        if not is_lost(file.has_begun, begun, bool(why), file.silence.seconds, stopped_for):
            return []
        file.lost = why or f"it has sent nothing for {file.silence.seconds:.0f} s{self._full_disk_words()}"
        return [NodeEvent(file.node, "lost", file.lost.encode())] if file.has_begun or stopped_for is None else []

    def _full_disk_words(self) -> str:
        try:
            return "" if os.statvfs(self._directory).f_bavail else ": the disk is full"
        except OSError:
            return ""

    def _require_begun(self) -> None:
        if self._stopped_at is None and not any(file.has_begun for file in self._files):
            hint = None if self._status.gone else _HINT
            raise self._refused or SubmitRejected(_loss_message(self._files), "exec", hint)

    def _renew(self) -> None:
        while not self._closed.wait(_RENEW if all(file.has_begun for file in self._files) else _RENEW_FIRST):
            self._change_lease()

    def _change_lease(self) -> None:
        """Write the command's file `lease` with its next number, as a sign to the nodes that this client is alive; an
        order to stop stays in it. If this fails, the lease is written again a second later."""
        with self._writing:
            self._count += 1
            try:
                write_lease(self._directory, f"{self._word} {self._count}")
            except OSError:
                pass

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                self._status, self._refused = self._ask(), None
            except (SubmitAgain, OSError):
                pass
            except WorldsizeError as error:
                self._refused = error
            self._closed.wait(_LOOK)


def is_lost(has_begun: bool, should_have: bool, is_gone: bool, silence: float, stopped_for: float | None) -> bool:
    """Return whether no more events of a command are expected from a node.

    has_begun    the node has reported an event
    should_have  the node has reported, or should have by now
    is_gone      the compute reports that the node is gone, which may arrive before its last lines do
    silence      seconds without news
    stopped_for  seconds since the end of the command was requested; None if it was not
    """
    if stopped_for is not None and (not should_have or stopped_for > GRACE + _OVERTIME):
        return True
    return silence > (LAG if is_gone else SILENCE if has_begun else PATIENCE)


def _loss_message(files: Sequence[NodeFile]) -> str:
    """Return a text with the reasons why a command never began on any node, each reason once with its nodes."""
    reasons: dict[str, list[str]] = {}
    for file in files:
        reasons.setdefault(file.lost, []).append(str(file.node))
    return "; ".join(f"node{'s' * (len(nodes) > 1)} {','.join(nodes)}: {why}" for why, nodes in reasons.items())
