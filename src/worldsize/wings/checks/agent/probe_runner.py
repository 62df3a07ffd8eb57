"""The probes of a node, each in a process of its own and with its own time limit: one that asks a dead file server, or
a driver that hangs, is late alone.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Sequence

from worldsize.agent.posix import processes
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import NamedTuple, NoReturn, TypeAlias
from worldsize.state.check_rows import UNKNOWN, row_of
from worldsize.wings.checks.agent.node_checks import NodeCheck
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult

_AT_MOST = 1 << 19
"""Bytes that a probe may say: half of what a message between agents may have."""

Probe: TypeAlias = "Callable[[NodeContext], ProbeResult]"


class _Running(NamedTuple):
    check: NodeCheck
    pid: int
    pipe: int
    ends_at: float
    said: bytearray


def load_probe(module: str) -> Probe:
    """The probe of a module of `probes/`."""
    found: Probe = __import__(f"worldsize.wings.checks.agent.probes.{module}", fromlist=("probe",)).probe
    return found


def run_probes(
    context: NodeContext, checks: Sequence[NodeCheck], load: Callable[[str], Probe] = load_probe
) -> ProbeResult:
    """The rows of all these probes in their order, and their facts together. `load` is called in the probe's own
    process. The rows of a probe that is late, fails or says too much are unknown."""
    found: dict[str, ProbeResult] = {}
    with selectors.DefaultSelector() as selector:
        for check in checks:
            running = _start(context, check, load)
            selector.register(running.pipe, selectors.EVENT_READ, running)
        while selector.get_map():
            left = [key.data for key in selector.get_map().values()]
            for key, _ in selector.select(max(0.0, min(each.ends_at for each in left) - time.monotonic())):
                if not _read(key.data):
                    found[key.data.check.module] = _result(context, key.data)
                    _end(selector, key.data)
            for each in left:
                if each.check.module not in found and time.monotonic() >= each.ends_at:
                    found[each.check.module] = _unknown(
                        context, each.check, f"it took more than {each.check.limit:g} s"
                    )
                    _end(selector, each)
    rows = tuple(row for check in checks for row in found[check.module].rows)
    facts = {name: value for check in checks for name, value in found[check.module].facts.items()}
    return ProbeResult(rows, facts)


def _start(context: NodeContext, check: NodeCheck, load: Callable[[str], Probe]) -> _Running:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _execute(context, check, load, writing)
    os.close(writing)
    return _Running(check, pid, reading, time.monotonic() + check.limit, bytearray())


def _execute(context: NodeContext, check: NodeCheck, load: Callable[[str], Probe], writing: int) -> NoReturn:
    """Execute a probe in this process, the leader of a group of its own, and leave."""
    try:
        os.setsid()
        processes.end_with_parent(signal.SIGKILL)
        rows, facts = load(check.module)(context)
        said = {"rows": [row._asdict() for row in rows], "facts": facts}
    except Exception as error:  # noqa: BLE001  (a defect of a probe, or of the machine: its rows tell it)
        said = {"error": f"{type(error).__name__}: {error}"[:200]}
    try:
        with open(writing, "wb") as file:
            file.write(json.dumps(said).encode("utf-8", "replace"))
    finally:
        os._exit(0)


def _read(running: _Running) -> bool:
    """Read what the probe says; whether there may be more."""
    data = os.read(running.pipe, 1 << 16)
    running.said.extend(data)
    return bool(data) and len(running.said) <= _AT_MOST


def _result(context: NodeContext, running: _Running) -> ProbeResult:
    try:
        said = json.loads(bytes(running.said))
        if "error" in said:
            return _unknown(context, running.check, str(said["error"]))
        return ProbeResult(tuple(map(row_of, said["rows"])), dict(said["facts"]))
    except PARSE_ERRORS:
        return _unknown(context, running.check, "the probe ended by itself")


def _unknown(context: NodeContext, check: NodeCheck, why: str) -> ProbeResult:
    return ProbeResult(tuple(context.row(id, check.what, "not known", UNKNOWN, why) for id in check.ids))


def _end(selector: selectors.BaseSelector, running: _Running) -> None:
    """End the probe and what it has started. One that waits for a dead file server is left to the agent."""
    selector.unregister(running.pipe)
    os.close(running.pipe)
    processes.signal_group(running.pid, signal.SIGKILL)
    os.waitpid(running.pid, os.WNOHANG)
