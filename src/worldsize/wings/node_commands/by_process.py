"""A running command on nodes by means of one local process (srun, or the node program itself), which reports on all
nodes in the lines of `wings.node_commands.agent.run_command`. The standard input of the process is the lifeline of the
processes that it started."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from binascii import a2b_base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType

from worldsize.agent.posix.processes import end_with_parent
from worldsize.common.child_termination import terminate_child
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.termination import Termination
from worldsize.compute.capabilities import NodeCommand, NodeEvent
from worldsize.errors import WorldsizeError
from worldsize.plan.rank_environment import scrub_rules
from worldsize.wings.node_commands.agent import run_command, transports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GRACE = 5.0
"""Seconds between TERM and KILL."""

_OVERTIME = 3.0
_AT_ONCE = 2.0
_CHUNK = 1 << 16
_NOTHING = re.compile("$^")


_IMPORTED = r"(?m)^from (worldsize[\w.]*) import (?:\([^)]*\)|.*)\n"
_BEGINNING = "from __future__ import annotations\n"


def program() -> str:
    """Return the source text of the node program, which executes a user's command and which any Python (3.8) on a node
    can run. It contains the modules of worldsize that it imports."""

    def imported_source(found: re.Match[str]) -> str:
        return _source(sys.modules[found[1]]).partition(_BEGINNING)[2]

    return re.sub(_IMPORTED, imported_source, _source(run_command))


def _source(module: ModuleType) -> str:
    with open(str(module.__file__), encoding="utf-8") as file:
        return file.read()


def command_spec(
    command: NodeCommand,
    variable: str | None = None,
    numbers: Mapping[str, int] | None = None,
    there: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Return the order (a JSON object) that states to the node program which command to execute, where, and in which
    environment.

    A node finds its number in `numbers`, under the name that the environment variable `variable` has on the node.
    Without `numbers`, the variable contains the number itself. Without `variable`, one program serves all nodes of the
    command. `there` converts a path of this machine into a path of the nodes.
    """
    count = len(command.plan.nodes if command.plan else command.nodes)
    own = {**command.variables, "WORLDSIZE_NODE_COUNT": str(count)}
    if command.paths is not None:
        own["WORLDSIZE_RUN_DIR"] = there(command.paths.root)
    return {
        "argv": command.argv,
        "python": command.python,
        "cwd": there(command.cwd),
        "nodes": command.nodes,
        "plan": there(command.paths.plan) if command.paths else None,
        "hook": there(command.paths.inrank) if command.paths else None,
        "set": own,
        "scrub": scrub_rules(),
        "variable": variable,
        "ranks": numbers,
        "grace": GRACE,
    }


def with_command_spec(environ: Mapping[str, str], wanted: Mapping[str, Any]) -> dict[str, str]:
    """Return `environ` with the order `wanted` for the node program added as a variable. The order is not passed on the
    command line, because all users can read that."""
    return {**environ, run_command.ORDER: json.dumps(wanted)}


class OutputRules(NamedTuple):
    """The rules for the output of the program that reaches the nodes. Lines are those of its standard error.

    on_refusal           creates the error from the program's output if no node was reached
    pass_on              lines that are shown before any node was reached
    ignore               lines that are never shown
    fatal                lines after which the program will end, or should end
    parent_death_signal  whether it gets TERM when this process is killed; otherwise it notices that by its lifeline,
                         once it reads it
    """

    on_refusal: Callable[[str], WorldsizeError]
    pass_on: re.Pattern[str] = _NOTHING
    ignore: re.Pattern[str] = _NOTHING
    fatal: re.Pattern[str] = _NOTHING
    parent_death_signal: bool = False


class ProcessCommandStream:
    """The stream of events (`NodeCommandStream`) of a command on nodes that one local process, such as srun,
    reports."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        rules: OutputRules,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._rules = rules
        self._reached = False
        self._asked = False
        self._end = Termination()
        self._left = {"out": b"", "err": b""}
        self._held: list[str] = []
        self._process = subprocess.Popen(
            argv,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=partial(end_with_parent, signal.SIGTERM) if rules.parent_death_signal else None,
        )
        assert self._process.stdin is not None
        self._stdin = self._process.stdin
        self._selector = selectors.DefaultSelector()
        for name, pipe in (("out", self._process.stdout), ("err", self._process.stderr)):
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, name)

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        if not self._selector.get_map():
            self._finish()
            return None
        said: list[NodeEvent] = []
        for key, _ in self._selector.select(timeout):
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._selector.unregister(key.fileobj)
            lines = self._lines(key.data, data)
            said += self._parse_events(lines) if key.data == "out" else self._notes(lines)
        self._signal_overdue()
        return said

    def stop(self) -> None:
        """Request the end of the command on all nodes. The lifeline reaches commands that run. A program that still
        waits for nodes gets only TERM."""
        self._send(transports.STOP)
        self._asked = True
        if self._reached:
            self._end.request(self._clock(), _OVERTIME, delay=GRACE + _OVERTIME)
        else:
            self._end.request(self._clock(), GRACE + 2 * _OVERTIME)
        self._signal_overdue()

    def close(self) -> None:
        """Terminate the local process and the command on all nodes at once. The commands' process groups are killed as
        a whole on their nodes first. Where Slurm has no control groups, srun would have the processes killed one after
        the other, and processes that they start meanwhile would survive."""
        if self._reached:
            self._send(transports.NOW)
            deadline = time.monotonic() + _AT_ONCE
            while self._selector.get_map() and time.monotonic() < deadline:
                self.read_events(deadline - time.monotonic())  # the output is discarded, but must not block the process
        self._stdin.close()
        terminate_child(self._process, self._signal, GRACE)
        self._selector.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _finish(self) -> None:
        self._stdin.close()
        code = self._process.wait()
        if not self._reached and not self._asked:
            raise self._rules.on_refusal("\n".join(self._held) or f"it ended with code {code} and printed nothing")

    def _send(self, word: str) -> None:
        if not self._stdin.closed:
            try:
                os.write(self._stdin.fileno(), word.encode() + b"\n")
            except OSError:
                pass  # the process has ended

    def _signal_overdue(self) -> None:
        """Send TERM or KILL to the local process if its end was requested, and it should have ended by now."""
        due = self._end.signal_due(self._clock())
        if due is not None:
            self._signal(due)

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _lines(self, name: str, data: bytes) -> list[bytes]:
        """Return the whole lines in `data` that the local process has written to its stream `name` ("out" or "err"),
        with what was left before; at the end of the stream, when `data` is empty, also the incomplete last line."""
        *lines, rest = (self._left[name] + data).split(b"\n")
        self._left[name] = rest if data else b""
        return lines if data or not rest else [*lines, rest]

    def _parse_events(self, lines: list[bytes]) -> list[NodeEvent]:
        """Return the node program's events in lines of the local process's standard output. Other lines, which a node's
        start-up files print, are not shown. With the first event, also return the lines of standard error that were
        held."""
        found = [said for said in map(parse_event, lines) if said is not None]
        if found and not self._reached:
            self._reached = True
            return [*_note_events(self._held), *found]
        return found

    def _notes(self, lines: list[bytes]) -> list[NodeEvent]:
        """Return the lines of the local process's standard error that are shown to the user now, as note events. Lines
        are held until a node is reached, except those that the rules pass on. Lines about an end that this process, or
        the program itself, has begun are dropped."""
        rules = self._rules
        if self._end.term_at is not None:
            return []
        texts = [line.decode(errors="replace") for line in lines if line.strip()]
        texts = [text for text in texts if not rules.ignore.search(text)]
        if any(rules.fatal.search(text) for text in texts):
            self._end.request(self._clock(), _OVERTIME, delay=_OVERTIME)
        if self._reached:
            return _note_events(texts)
        self._held += [text for text in texts if not rules.pass_on.search(text)]
        return _note_events([text for text in texts if rules.pass_on.search(text)])


def _note_events(texts: list[str]) -> list[NodeEvent]:
    return [NodeEvent(-1, "note", text.encode()) for text in texts]


def parse_event(line: bytes) -> NodeEvent | None:
    """Return the event (start, output or end of a command on a node) in a line of the node program; None for a line
    that is not one of its own."""
    words = line.split(b" ")
    if len(words) != 4 or words[0] != run_command.MARK.encode():
        return None
    try:
        node, kind = int(words[1]), words[2].decode()
        if kind == "end":
            return NodeEvent(node, kind, code=int(words[3]))
        return NodeEvent(node, kind, a2b_base64(words[3]))
    except ValueError:
        return None
