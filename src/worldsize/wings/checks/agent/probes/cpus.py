"""Probe for the cores that ranks may use, limited by their CPU affinity and by the quota of a control group. Libraries
do not read the quota.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.agent.machine.cores import Cores, read_cores
from worldsize.common.numbers import parse_digits
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number

_WHAT = "cores"
_NEARLY = 0.9
"""The share of the allowed cores from which on a quota has no noticeable effect."""


def probe(context: NodeContext) -> ProbeResult:
    """Return the node check's rows cpu.count and cpu.binding, and the fact usable_cores, which is the number of cores
    that the affinity allows. Virtual nodes give no rows, because they share one machine's cores."""
    cores = read_cores(context.root)
    rows = () if context.asked.get("virtual") else judge_cores(context, cores)
    return ProbeResult(rows, {"usable_cores": cores.allowed})


def judge_cores(context: NodeContext, cores: Cores) -> tuple[CheckRow, ...]:
    """Return the node check's rows cpu.count and cpu.binding for the node's `cores`. If all ranks are bound to one
    core, return only a warning in the row cpu.binding."""
    bound = _binding_row(context, cores)
    if bound is not None:
        return (bound,)
    return (_count_row(context, cores), context.row("cpu.binding", "the ranks' cores", _span(cores), OK))


def _binding_row(context: NodeContext, cores: Cores) -> CheckRow | None:
    """Return a warning row cpu.binding if all ranks and loader workers of the node share one core although the node has
    several; None otherwise. Slurm gives a task one core unless --cpus-per-task is set, and all ranks are children of
    one task."""
    ranks, workers = _ranks(context), asked_number(context.asked, "workers") or 0
    if cores.allowed != 1 or cores.online < 2 or ranks + workers < 2:
        return None
    who = f"all {ranks} ranks" if ranks > 1 else f"the rank and its {workers} loader workers"
    value = f"{who} on one core of {cores.online}"
    hint = "ask for cores: without --cpus-per-task Slurm gives one"
    return context.row("cpu.binding", "the ranks' cores", value, WARNING, hint)


def _count_row(context: NodeContext, cores: Cores) -> CheckRow:
    value, hint = _complaint(context, cores)
    if value:
        return context.row("cpu.count", _WHAT, value, WARNING, hint)
    return context.row("cpu.count", _WHAT, _number(cores.usable), OK)


def _complaint(context: NodeContext, cores: Cores) -> tuple[str, str]:
    """Return a pair of texts: the problem with the node's number of cores for its ranks and loader workers, and a hint
    how to fix it. Both are empty if there is no problem."""
    ranks, workers = _ranks(context), asked_number(context.asked, "workers") or 0
    asked = asked_number(context.asked, "cores") or 0
    usable = _number(cores.usable)
    if cores.usable < ranks:
        return f"{usable} for {ranks} rank{'s' * (ranks > 1)}", "ask for at least one core per rank"
    if cores.allowed < asked:
        return f"{usable} of {asked} that the job asks for", "check the scheduler's allocation: it binds to fewer"
    if cores.quota is not None and cores.quota < _NEARLY * cores.allowed and not _keeps_quota(context, cores.quota):
        value = f"{cores.allowed} are seen, and the control group gives the time of {_number(cores.quota)}"
        return value, "set OMP_NUM_THREADS and num_workers by the quota, or raise the container's limit of cores"
    if ranks * workers > 2 * cores.usable:
        who = f"{ranks} ranks with {workers} loader workers each" if ranks > 1 else f"{workers} loader workers"
        return f"{usable} for {who}", "lower num_workers, or ask for more cores"
    return "", ""


def _keeps_quota(context: NodeContext, quota: float) -> bool:
    """Return whether OMP_NUM_THREADS limits the ranks to no more threads than the quota has cores."""
    threads = parse_digits(context.environ.get("OMP_NUM_THREADS"))
    return threads is not None and threads * _ranks(context) <= quota


def _ranks(context: NodeContext) -> int:
    return asked_number(context.asked, "ranks") or 1


def _span(cores: Cores) -> str:
    return f"{cores.allowed} of {cores.online}" if cores.online > cores.allowed else f"{cores.allowed}"


def _number(count: float) -> str:
    return f"{count:.3g}" if count < 100 else f"{count:.0f}"
