"""An all-reduce over all GPUs by the ranks of one node, and the information that NCCL logs during it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from worldsize.agent.machine.fabric_counters import read_sent_bytes
from worldsize.agent.machine.node_files import names_in
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.rank_group import reports_of_ranks
from worldsize.wings.checks.agent.programs.torch_programs import ALL_REDUCE, ALL_REDUCES
from worldsize.wings.checks.agent.transport.nccl_log import complete_lines, parse_nccl_log
from worldsize.wings.checks.agent.transport.nccl_reasons import EXPLAINING
from worldsize.wings.checks.agent.transport.nccl_summary import NcclSummary, merge
from worldsize.wings.checks.agent.transport.origins import variable_origins

_LOG_LIMIT = 4 << 20
"""The number of bytes to read of a rank's log. The relevant lines are at the start of a run."""

_DEBUG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV,GRAPH"}
_LOG = "nccl."
_COUNTER_END = (1 << 32) * 4 - 4
"""The number of bytes at which counters of 32 bits stop counting."""


def measure_nccl(context: NodeContext, order: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """Run this node's ranks in the all-reduce over all GPUs that `order` describes, with NCCL's log in `folder`. Return
    the fields of `node_answer.NodeAnswer` about NCCL, such as the time and the log's summary. Raise OSError if Python
    cannot be started."""
    debug = {**_DEBUG, "NCCL_DEBUG_FILE": os.path.join(folder, f"{_LOG}%p")}
    telling = context._replace(environ={**context.environ, **debug})
    before = read_sent_bytes(context.root)
    reports = reports_of_ranks(telling, order, ALL_REDUCE, "bandwidth")
    sent = sent_between(before, read_sent_bytes(context.root))
    logs = [os.path.join(folder, name) for name in names_in(folder) if name.startswith(_LOG)]
    summary = merge(parse_nccl_log(_log_lines(log)) for log in logs)
    return {**_result(reports, order), **_surroundings(context, summary), "sent": sent}


def sent_between(before: Mapping[str, int], after: Mapping[str, int]) -> int | None:
    """Compute the number of bytes that all ports of the fabric sent together between two readings of their counters,
    each a mapping of port to bytes. None if no port is in both readings, or if a counter went back or has reached its
    maximum."""
    common = [port for port in after if port in before]
    if not common or any(after[port] < before[port] or after[port] == _COUNTER_END for port in common):
        return None
    return sum(after[port] - before[port] for port in common)


def _log_lines(path: str) -> Iterator[str]:
    yield from complete_lines(read_if_possible(path, _LOG_LIMIT).decode("utf-8", "replace"))


def _result(reports: Mapping[str, Mapping[str, Any]], order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the all-reduce's `size`, `times`, `seconds` (of the slowest rank) and whether it was `correct` on all
    ranks, from the ranks' reports. If a rank did not finish, return only `failure`, a text that names the rank and its
    error."""
    failed = [(number, report) for number, report in reports.items() if report.get("stage") != "done"]
    for number, report in sorted(failed, key=lambda each: "error" not in each[1]):
        words = report.get("error") or f"did not finish in time (it was {report.get('stage') or 'starting'})"
        return {"failure": f"rank {number}: {words}"}
    seconds = max(number_in(report, "seconds") or 0.0 for report in reports.values())
    correct = all(report.get("correct") is True for report in reports.values())
    return {"size": order["size"], "times": ALL_REDUCES, "seconds": seconds, "correct": correct}


def _surroundings(context: NodeContext, summary: NcclSummary) -> dict[str, Any]:
    """Return the fields `nccl` (NCCL's summary, None without information), `origins` of NCCL's variables, and `speeds`
    and `masters` of the network interfaces. The summary's variables include those of the ranks' environment, because
    NCCL follows NCCL_NET without logging it."""
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
    """Return the speed of a network interface in Gb/s, read from /sys/class/net; 0 if the kernel does not know it,
    which is the case for most virtual interfaces."""
    text = read_if_possible(context.path("sys", "class", "net", interface, "speed"), 16).strip()
    return int(text) / 1000 if text.isdigit() else 0.0


def _masters(context: NodeContext) -> dict[str, str]:
    """Return a mapping of network interface to its master, for the interfaces that have one: the bond that the
    interface belongs to, or the interface of a virtual machine whose fast path it is."""
    folder = context.path("sys", "class", "net")
    links = {name: os.path.join(folder, name, "master") for name in names_in(folder)[:256]}
    return {name: os.path.basename(os.path.realpath(link)) for name, link in links.items() if os.path.islink(link)}
