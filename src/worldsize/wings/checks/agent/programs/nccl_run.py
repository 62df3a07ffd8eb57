"""The ranks of one node in an all-reduce over all GPUs, and what NCCL says meanwhile.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.common.named_tuple import Any, NoReturn
from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.child_programs import (
    Outcome,
    Program,
    last_words,
    read_output,
    run_programs,
)
from worldsize.wings.checks.agent.programs.nccl_program import MARK, PROGRAM, TIMES
from worldsize.wings.checks.agent.transport.counters import read_sent_bytes, sent_between
from worldsize.wings.checks.agent.transport.nccl_log import complete_lines, parse_nccl_log
from worldsize.wings.checks.agent.transport.nccl_reasons import EXPLAINING
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary, merge
from worldsize.wings.checks.agent.transport.origins import variable_origins

KIND = "bandwidth"
"""The kind of connection over which the head's node tells its ranks' port."""

_LIMIT = 50.0
"""Seconds for all: less than the stage's, so that there is an answer."""
_LOG_LIMIT = 4 << 20
_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH"}
_LINE = 16


def measure_nccl(context: NodeContext, order: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """What `answers.NodeAnswer` reads of NCCL. Raises OSError where Python cannot be started or the head's port
    cannot be asked for."""
    deadline = time.monotonic() + _LIMIT
    python = find_program(str(context.asked.get("python") or "python3"), context.environ)
    port = _agree_on_port(order, deadline)
    programs = [_program(context, order, folder, python, port, local) for local in range(order["ranks"])]
    before = read_sent_bytes(context.root)
    outcome = run_programs(programs, max(1.0, deadline - time.monotonic()))
    sent = sent_between(before, read_sent_bytes(context.root))
    outputs = [read_output(program.output) for program in programs]
    summary = merge(parse_nccl_log(_log_lines(_log(folder, local))) for local in range(order["ranks"]))
    return {**_result(outcome, outputs, order), **_surroundings(context, summary), "sent": sent}


def _agree_on_port(order: Mapping[str, Any], deadline: float) -> int:
    """The port at which all ranks meet: free on the head's node, which tells it to each other node that asks."""
    if order["head"]:
        port = _free_port()
        if order["nodes"] > 1:
            threading.Thread(target=_tell, args=(port, order["nodes"] - 1, deadline), daemon=True).start()
        return port
    seconds = max(1.0, deadline - time.monotonic())
    with listener.connect(order["address"], order["port"], order["token"], KIND, seconds) as connection:
        connection.settimeout(seconds)
        with connection.makefile("rb") as stream:
            return int(stream.readline(_LINE) or _no_port())


def _no_port() -> NoReturn:
    raise OSError("the head's node told no port for its ranks")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))  # nosec B104  # other nodes are to reach it
        return int(probe.getsockname()[1])


def _tell(port: int, nodes: int, deadline: float) -> None:
    for _ in range(nodes):
        try:
            with listener.take(KIND, max(0.1, deadline - time.monotonic())) as connection:
                connection.sendall(b"%d\n" % port)
        except OSError:  # a node that is late, or gone: the ranks' own limit tells of it
            continue


def _program(
    context: NodeContext, order: Mapping[str, Any], folder: str, python: str, port: int, local: int
) -> Program:
    variables = {
        "RANK": order["first"] + local, "LOCAL_RANK": local, "WORLD_SIZE": order["world"],
        "LOCAL_WORLD_SIZE": order["ranks"], "MASTER_ADDR": order["address"], "MASTER_PORT": port,
        "NCCL_DEBUG_FILE": _log(folder, local),
    }  # fmt: skip
    environ = {**context.environ, **_DEBUG, **{name: str(value) for name, value in variables.items()}}
    argv = [python, "-c", PROGRAM, str(order["size"]), str(_LIMIT)]
    return Program(argv, environ, os.path.join(folder, f"output-{local}"))


def _log(folder: str, local: int) -> str:
    return os.path.join(folder, f"nccl-{local}")


def _log_lines(path: str) -> Iterator[str]:
    """The lines of a log, up to four MiB: what counts is said at the start of a run."""
    try:
        with open(path, "rb") as file:
            yield from complete_lines(file.read(_LOG_LIMIT).decode("utf-8", "replace"))
    except OSError:  # a rank that failed before NCCL began
        return


def _result(outcome: Outcome, outputs: Sequence[str], order: Mapping[str, Any]) -> dict[str, Any]:
    """The slowest rank's time, and whether all ranks had the right result; why there is none, where there is none."""
    told = [result for result in map(_told, outputs) if result is not None]
    if len(told) < order["ranks"]:
        return {"failure": _failure(outcome, outputs)}
    seconds = max(float(result.get("seconds", 0)) for result in told)
    correct = all(result.get("correct") is True for result in told)
    return {"size": order["size"], "times": TIMES, "seconds": seconds, "correct": correct}


def _told(output: str) -> dict[str, Any] | None:
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    try:
        value = json.loads(lines[-1][len(MARK) :]) if lines else None
    except ValueError:  # a line that was cut off, as by a full disk
        return None
    return value if isinstance(value, dict) else None


def _failure(outcome: Outcome, outputs: Sequence[str]) -> str:
    if outcome.failed is not None:
        return last_words(outputs[outcome.failed]) or f"a rank ended with {outcome.codes[outcome.failed]}"
    return f"no end within {_LIMIT:g} s" if outcome.late else "a rank told no result"


def _surroundings(context: NodeContext, summary: NcclSummary) -> dict[str, Any]:
    """Variables are those of the ranks, too: NCCL follows NCCL_NET without saying so."""
    own = {name: context.environ[name][:200] for name in EXPLAINING if name in context.environ}
    if summary != NcclSummary():
        summary = summary._replace(variables={**own, **summary.variables})
    names = [name for name in EXPLAINING if name in summary.variables]
    return {
        "nccl": summary._asdict() if summary != NcclSummary() else None,
        "origins": variable_origins(names, context),
        "speeds": {name: _speed(context, name) for name in summary.interfaces},
        "masters": _masters(context),
    }


def _speed(context: NodeContext, interface: str) -> float:
    """Gb/s of an interface; 0 where the kernel does not know, as of most virtual ones."""
    try:
        with open(context.path("sys", "class", "net", interface, "speed"), "rb") as file:
            return max(0, int(file.read(_LINE))) / 1000
    except (OSError, ValueError):  # reading fails with EINVAL where there is no speed
        return 0.0


def _masters(context: NodeContext) -> dict[str, str]:
    """The interface that each one is a part of: a bond's, or a virtual machine's whose fast path it is."""
    folder = context.path("sys", "class", "net")
    try:
        names = os.listdir(folder)[:256]
        links = {name: os.path.join(folder, name, "master") for name in names}
        return {name: os.path.basename(os.readlink(link)) for name, link in links.items() if os.path.islink(link)}
    except OSError:  # an interface that went meanwhile: the parts are only needed to be more cautious
        return {}
