"""Runner for a node's probes, which execute in child processes with time limits.

Only the probe that waits for a dead file server or a driver that hangs is late. Probes that take milliseconds share one
process while none of them takes longer, because starting a process takes more time than they do.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from worldsize.agent.posix import processes
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import NoReturn, TypeAlias
from worldsize.state.check_rows import UNKNOWN, row_of
from worldsize.wings.checks.agent.node_checks import NodeCheck
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult

_AT_MOST = 1 << 17
"""The largest number of bytes in a probe's output. The report of a node contains the output of all probes in one
message between agents."""

_PATIENCE = 1.0
"""Seconds that a probe may take before those after it no longer wait for it."""

Probe: TypeAlias = "Callable[[NodeContext], ProbeResult]"


def load_probe(module: str) -> Probe:
    """Import the module `probes/<module>.py` of the node check and return its function `probe`, which maps a
    NodeContext to a ProbeResult."""
    found: Probe = __import__(f"worldsize.wings.checks.agent.probes.{module}", fromlist=("probe",)).probe
    return found


class _Child:
    """A child process that executes probes one after the other.

    due     the probes that have not reported yet; the first one is being executed
    closed  whether no more output comes
    """

    def __init__(self, pid: int, pipe: int, due: Sequence[NodeCheck], began: float) -> None:
        self.pid, self.pipe, self.due = pid, pipe, list(due)
        self.closed = False
        self._began = began
        self._said = bytearray()
        self._heard_at = time.monotonic()

    def ends_at(self) -> float:
        """Return the monotonic time at which the child's current probe exceeds its own time limit."""
        return self._began + self.due[0].limit

    def stalls_at(self) -> float:
        """Return the monotonic time after which the probes behind the child's current probe no longer wait for it: one
        second after the child started or last finished a probe. If no probe follows, return the time at which the
        current probe exceeds its limit."""
        return self._heard_at + _PATIENCE if len(self.due) > 1 else self.ends_at()

    def read(self) -> None:
        """Read the available bytes of the child's output pipe into the buffer. Mark the child as closed at the end of
        the output."""
        data = os.read(self.pipe, 1 << 16)
        self._said.extend(data)
        self.closed = not data

    def lines(self) -> Iterator[tuple[NodeCheck, bytes]]:
        """Yield a pair (probe, line of its output) for each probe of the child that has finished, and remove the probe
        from `due`. Mark the child as closed if an unfinished line is too long."""
        *lines, rest = bytes(self._said).split(b"\n")
        self._said = bytearray(rest)
        for line in lines[: len(self.due)]:
            self._heard_at = time.monotonic()
            yield self.due.pop(0), line
        self.closed = self.closed or len(rest) > _AT_MOST


class _Probes:
    """The running probes of one node check. `found` maps the module name of each finished probe to its ProbeResult."""

    def __init__(self, context: NodeContext, load: Callable[[str], Probe], selector: selectors.BaseSelector) -> None:
        self.found: dict[str, ProbeResult] = {}
        self._context, self._load, self._selector = context, load, selector
        self._began = time.monotonic()

    def start(self, checks: Sequence[NodeCheck]) -> None:
        """Start one child process that executes the probes in `checks` one after the other, and register its pipe. If
        no process can be started, record the rows of these probes as unknown."""
        try:
            pid, pipe = self._fork(checks)
        except OSError as error:  # no free process or descriptor
            why = f"cannot be started: {error.strerror}"
            self.found.update((check.module, _unknown(self._context, check, why)) for check in checks)
            return
        self._selector.register(pipe, selectors.EVENT_READ, _Child(pid, pipe, checks, self._began))

    def _fork(self, checks: Sequence[NodeCheck]) -> tuple[int, int]:
        """Fork a child process that executes the probes in `checks`. Return its process id and the reading end of the
        pipe that it writes its results to. Raise OSError."""
        reading, writing = os.pipe()
        try:
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                _execute(self._context, checks, self._load, writing)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        return pid, reading

    def wait(self) -> None:
        """Wait until a probe writes output or is late. Record the results of finished probes in `found`. Kill each
        child process that is done or late, and give the probes that still wait there their own processes."""
        children = [key.data for key in self._selector.get_map().values()]
        next_at = min(min(child.ends_at(), child.stalls_at()) for child in children)
        for key, _ in self._selector.select(max(0.0, next_at - time.monotonic())):
            key.data.read()
        for child in children:
            for check, line in child.lines():
                self.found[check.module] = _result(self._context, check, line)
            self._look_after(child, time.monotonic())

    def _look_after(self, child: _Child, now: float) -> None:
        """Kill a child process that is done or whose current probe is late. If the current probe holds up others, start
        a separate process for each of those. Do nothing if the child is still in time."""
        if child.due and not child.closed and now < min(child.ends_at(), child.stalls_at()):
            return
        current, rest = child.due[:1], child.due[1:]
        child.due = current
        for check in current:
            if child.closed or now >= child.ends_at():
                why = "the probe ended by itself" if child.closed else f"it took more than {check.limit:g} s"
                self.found[check.module] = _unknown(self._context, check, why)
                child.due = []
        if not child.due:
            _end(self._selector, child)
        for check in rest:
            self.start((check,))


def run_probes(
    context: NodeContext, checks: Sequence[NodeCheck], load: Callable[[str], Probe] = load_probe
) -> ProbeResult:
    """Execute the probes in `checks` in child processes. Return one ProbeResult: their rows in the order of `checks`,
    and their facts in one mapping. `load` returns a probe's function by its module and is called in the child process.
    The rows of a probe that is late, fails or writes too much are unknown."""
    groups: dict[str, list[NodeCheck]] = {}
    for check in checks:
        groups.setdefault(check.group or check.module, []).append(check)
    with selectors.DefaultSelector() as selector:
        probes = _Probes(context, load, selector)
        for group in groups.values():
            probes.start(group)
        while selector.get_map():
            probes.wait()
    rows = tuple(row for check in checks for row in probes.found[check.module].rows)
    facts = {name: value for check in checks for name, value in probes.found[check.module].facts.items()}
    return ProbeResult(rows, facts)


def _execute(context: NodeContext, checks: Sequence[NodeCheck], load: Callable[[str], Probe], writing: int) -> NoReturn:
    """Execute the probes in `checks` one after the other in this forked child process, write one line of JSON for each
    to the descriptor `writing`, and exit. The process first becomes the leader of its own session. Never return."""
    try:
        os.setsid()
        processes.end_with_parent(signal.SIGKILL)
        with open(writing, "wb", 0) as file:
            for check in checks:
                file.write(_said(context, check, load))
    finally:
        os._exit(0)


def _said(context: NodeContext, check: NodeCheck, load: Callable[[str], Probe]) -> bytes:
    """Execute the probe of `check` and return one line of JSON: its `rows` and `facts`, or only its `error` if it
    raised an exception."""
    try:
        rows, facts = load(check.module)(context)
        said = json.dumps({"rows": [row._asdict() for row in rows], "facts": facts})
    except Exception as error:  # noqa: BLE001  (a defect of a probe or the machine is reported in its rows)
        said = json.dumps({"error": error_text(error)})
    return said.encode("utf-8", "replace") + b"\n"


def error_text(error: Exception) -> str:
    """Return the class and message of a probe's or a measurement's exception as text for a row of the node check:
    without control characters and secrets, at most 200 characters."""
    from worldsize.wings.checks.agent.readers.row_texts import safe_text

    return safe_text(f"{type(error).__name__}: {error}", 200)


def _result(context: NodeContext, check: NodeCheck, line: bytes) -> ProbeResult:
    try:
        said = json.loads(line)
        if "error" in said:
            return _unknown(context, check, str(said["error"]))
        return ProbeResult(tuple(map(row_of, said["rows"])), dict(said["facts"]))
    except PARSE_ERRORS:
        return _unknown(context, check, "the probe ended by itself")


def _unknown(context: NodeContext, check: NodeCheck, why: str) -> ProbeResult:
    return ProbeResult(tuple(context.row(id, check.what, "unknown", UNKNOWN, why) for id in check.ids))


def _end(selector: selectors.BaseSelector, child: _Child) -> None:
    """Kill the child process and every process of its group, and close its pipe. A process that waits for a dead file
    server is left for the agent to reap."""
    selector.unregister(child.pipe)
    os.close(child.pipe)
    processes.signal_group(child.pid, signal.SIGKILL)
    processes.signal_process(child.pid, signal.SIGKILL)  # the child may not lead a group yet
    os.waitpid(child.pid, os.WNOHANG)
