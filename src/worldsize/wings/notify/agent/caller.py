"""The process that executes the command of `notify`, and the class that sends events to it.

The process is forked once for each attempt, above the head's agent, so it exists before the agent starts and after it
ends. It handles one message after the other, so the command is never executed twice at the same time. It ends after the
last message.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Mapping
from functools import partial

from worldsize.agent.local.detached import run_as_program
from worldsize.common.atomic_files import open_log, read_object, write_all
from worldsize.common.named_tuple import Any
from worldsize.plan.array import is_cancelled
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.state.exit_records import read_exit
from worldsize.state.records import ExitRecord, Observation, RunState, Status
from worldsize.state.run_state import AttemptFacts, fold
from worldsize.trust.secrets import mask_text
from worldsize.wings.notify.agent.command import IGNORED, LIMIT, Call, call_command
from worldsize.wings.notify.agent.message import (
    ToldRun,
    end_messages,
    message_text,
    resumed_message,
    start_message,
    stuck_message,
)

PATIENCE = 4.0
"""Seconds that the end of a run waits for the command, and for the records of other nodes, which wait 5 s for the
head."""

_MOST_BYTES = 1 << 17
_MOST_LOG = 1 << 20
_PAUSE = 0.02
_LAST_LINE = 200


class Caller:
    """The agent's end of the connection to the process that executes the command. `pid` is the number of that
    process."""

    def __init__(self, plan: Plan, paths: RunPaths, environ: Mapping[str, str], restartable: bool) -> None:
        """Fork the process that executes the command of `notify`. Raise OSError if that fails."""
        self._plan = plan
        self._paths = paths
        self._restartable = restartable
        self._began = time.time()
        self._stopping = False
        self._end_told = mmap.mmap(-1, 1)  # set by the agent or by the process that forked it: both see this byte
        self._link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            run_as_program(lambda: _CallingProcess(plan.notify, paths, environ, other).run())
        other.close()
        self._link.setblocking(False)

    def fileno(self) -> int:
        return self._link.fileno()

    def hear(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Send a message to the process that executes the command of `notify` if the event `kind`, which the head's
        agent has recorded, is one to report: start, stuck or resumed. `fields` are the event's fields. Raise OSError if
        the queue of messages is full."""
        now = time.time()
        if kind == "stopping":
            self._stopping = True
        elif kind == "ranks_started" and not self._stopping:
            self._send(start_message(self._told_run(), now))
        elif kind == "stuck":
            self._send(stuck_message(self._told_run(), now, fields))
        elif kind == "resumed":
            self._send(resumed_message(self._told_run(), now))

    def take_answers(self) -> list[str] | None:
        """Return the answers of the process that executes the command of `notify` since the last call, which report
        failures of the command; None once the process has ended."""
        found: list[str] = []
        while True:
            try:
                data = self._link.recv(_MOST_BYTES)
            except BlockingIOError:
                return found
            except OSError:
                return None
            if not data:
                return found or None
            found.append(data.decode("utf-8", "replace"))

    def tell_end(self) -> list[str]:
        """Send the messages about the end of the attempt to the command of `notify`, once. Wait until the command has
        been executed, at most PATIENCE seconds. Return reports of failures of the command; an empty list if the
        messages were sent before."""
        if self._end_told[0]:
            return []
        self._end_told[0] = 1
        status, now = _status_of_records(self._plan, self._paths), time.time()
        for message in end_messages(self._told_run(), status, now, self._restartable):
            self._send(message)
        found: list[str] = []
        until = time.monotonic() + PATIENCE
        while (left := until - time.monotonic()) > 0:
            select.select([self._link], [], [], left)
            answers = self.take_answers()
            if answers is None:
                break
            found += answers
        return found

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message, with secrets masked, to the process that executes the command of `notify`. Raise OSError if
        the queue of messages is full."""
        self._link.send(message_text(message, plan_secret_values(self._plan)).encode())

    def _told_run(self) -> ToldRun:
        plan, job = self._plan, read_object(self._paths.handle).get("job")
        return ToldRun(
            plan.run_id,
            plan.name,
            plan.compute,
            plan.attempt,
            len(plan.nodes),
            plan.world_size,
            self._paths.root,
            self._began,
            str(job) if isinstance(job, (str, int)) else None,
        )


def _status_of_records(plan: Plan, paths: RunPaths) -> Status:
    """Return the status of the attempt at its end, from the records of its nodes. The head's record alone shows a
    failure. A success needs the record of every node, and these are waited for. If the attempt was ended without a
    request through worldsize, the status has no reason."""
    nodes = len(plan.agents)
    until = time.monotonic() + PATIENCE
    found: dict[int, ExitRecord] = {}
    while True:
        head = read_exit(paths, 0)
        if head is None or not head.code:  # reads each record once: there may be a thousand nodes on a file server
            unread = (node_rank for node_rank in range(nodes) if node_rank not in found)
            found.update((each.node_rank, each) for each in map(partial(read_exit, paths), unread) if each is not None)
        exits = tuple(found[node_rank] for node_rank in sorted(found))
        missing = nodes - len(exits) - len(head.without if head else ())
        if head is None or head.code or missing <= 0 or time.monotonic() >= until:
            break
        time.sleep(_PAUSE)
    if head is not None and head.code:
        nodes, exits = 1, (head._replace(without=()),)
    is_whole = nodes == 1 or missing <= 0
    said, cancelled = Observation("ended" if is_whole else "running"), is_cancelled(paths)
    status = fold(AttemptFacts(nodes, True, True, None, cancelled, True, exits, said, settled=is_whole))
    return status if cancelled or status.state != RunState.CANCELLED else status._replace(reason=None)


class _CallingProcess:
    """The process that executes the command of `notify` for each message. It ends after the last message, or when all
    possible senders have ended."""

    def __init__(self, command: str, paths: RunPaths, environ: Mapping[str, str], link: socket.socket) -> None:
        self._command = command
        self._paths = paths
        self._environ = dict(environ)
        self._link = link
        self._has_failed = False

    def run(self) -> int:
        self._leave_parent()
        while True:
            data = self._link.recv(_MOST_BYTES)
            if not data:
                return 0
            event = json.loads(data)["event"]
            self._call(event, data.decode() + "\n")
            if event == "end":
                return 0

    def _leave_parent(self) -> None:
        """Drop everything that this forked process has inherited from its parent: session, signal handlers, streams,
        lifelines. Change to the directory of the run's code."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in IGNORED:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        link = self._link.fileno()
        os.closerange(3, link)
        os.closerange(link + 1, os.sysconf("SC_OPEN_MAX"))
        try:
            os.chdir(self._paths.code)
        except OSError:  # there is no code, or the run's directory is gone
            os.chdir("/")

    def _call(self, event: str, text: str) -> None:
        try:
            call = call_command(self._command, text, self._environ)
        except OSError as error:
            call = Call(127, 0.0, f"bash: {error}".encode())
        how = f"exit code {call.code}" if call.code is not None else f"ended after {LIMIT:g} s, its time limit"
        self._log(f"# {event}: {how}, {call.seconds:.1f} s\n".encode(), call.printed)
        if call.code != 0 and not self._has_failed:
            self._has_failed = True
            self._answer(event, how, call.printed)

    def _answer(self, event: str, how: str, printed: bytes) -> None:
        lines = printed.decode("utf-8", "replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        said = f": {mask_text(last)[:_LAST_LINE]}" if last else ""
        advice = "correct `notify` in the job or in worldsize.toml; its output is in"
        try:
            self._link.send(f"notify: the command failed at {event} ({how}{said}); {advice} {self._log_name}".encode())
        except OSError:  # the run has ended, and there is no receiver
            pass

    @property
    def _log_name(self) -> str:
        return os.path.relpath(self._paths.notify_log, self._paths.root)

    def _log(self, head: bytes, printed: bytes) -> None:
        end = b"\n" if printed and not printed.endswith(b"\n") else b""
        try:
            file = open_log(self._paths.notify_log)
            try:
                if os.fstat(file).st_size < _MOST_LOG:
                    write_all(file, head + printed + end)
            finally:
                os.close(file)
        except OSError:  # the disk is full, or the run was removed
            pass
