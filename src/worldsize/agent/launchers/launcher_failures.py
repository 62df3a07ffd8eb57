"""Which rank failed first where a launcher stands between the ranks and us: in the launcher's words, and in what the
ranks' Pythons left."""

from __future__ import annotations

import os
from collections.abc import Sequence

from worldsize.agent.launchers.rank_process import EndedProcess
from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.records import Failure, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict

    from worldsize.agent.launchers.torchrun import FailedRank

_LINE = 300


def launcher_failures(
    plan: Plan, paths: RunPaths, node_rank: int, hosts: Sequence[str], ended: EndedProcess, oom: bool
) -> list[Failure]:
    """At least one, of the launcher that has `ended` on this node."""
    if plan.launcher == "torchrun":
        return _torchrun_failures(paths, node_rank, hosts[node_rank], ended, oom)
    if plan.launcher == "deepspeed":
        return _deepspeed_failures(plan, paths, node_rank, hosts[node_rank], ended, oom)
    if plan.launcher == "autotune" and not node_rank:
        return [_launcher_failure(plan.launcher, node_rank, hosts[node_rank], ended)]
    if node_rank:
        return [_daemon_failure(plan.launcher, node_rank, hosts[node_rank], ended)]
    return _all_ranks_failures(plan, paths, hosts, ended, _first_cause(plan, paths, ended), oom)


def _first_cause(plan: Plan, paths: RunPaths, ended: EndedProcess) -> FailedRank | None:
    if plan.launcher == "srun":
        from worldsize.agent.launchers import slurm_srun

        return slurm_srun.first_cause(ended.process.log)
    from worldsize.agent.launchers import mpirun

    return mpirun.first_cause(ended.process.log, ended.code) or mpirun.abort_cause(plan, paths, ended.code)


def _torchrun_failures(paths: RunPaths, node_rank: int, host: str, ended: EndedProcess, oom: bool) -> list[Failure]:
    from worldsize.agent.launchers.torchrun import root_cause

    told = ended.process.environment.get("TORCHELASTIC_ERROR_FILE")
    cause = root_cause(ended.process.log)
    ranks, code = ((cause.rank,), cause.code) if cause else (ended.process.ranks, ended.code)
    return [rank_failure(rank, node_rank, host, code, ended.time, read_error(paths, rank, told), oom) for rank in ranks]


def _deepspeed_failures(
    plan: Plan, paths: RunPaths, node_rank: int, host: str, ended: EndedProcess, oom: bool
) -> list[Failure]:
    """Of the launcher of one node, which does not say which rank it was."""
    from worldsize.agent.launchers.deepspeed import rank_exit_code

    code = rank_exit_code(ended.code)
    found = [
        rank_failure(rank, node_rank, host, code, ended.time, error, oom)
        for rank, error in _rank_errors(plan, paths).items()
        if rank in ended.process.ranks
    ]
    if not found and len(ended.process.ranks) == 1:
        return [rank_failure(ended.process.ranks[0], node_rank, host, code, ended.time, None, oom)]
    return found or [_launcher_failure(plan.launcher, node_rank, host, ended._replace(code=code))]


def _all_ranks_failures(
    plan: Plan, paths: RunPaths, hosts: Sequence[str], ended: EndedProcess, cause: FailedRank | None, oom: bool
) -> list[Failure]:
    """Of a launcher on the head for the ranks of all nodes. The first that it saw end may have ended for the end of
    another; one that left no exception counts as the earliest, since nothing tells its time."""
    nodes = {rank.rank: node.node_rank for node in plan.nodes for rank in node.ranks}
    errors = _rank_errors(plan, paths)
    found = []
    if cause is not None and cause.rank in nodes:
        node = nodes[cause.rank]
        error = errors.pop(cause.rank, None)
        first = min([ended.time, *(each["time"] for each in errors.values() if each["time"])])
        found.append(
            rank_failure(cause.rank, node, hosts[node], cause.code, ended.time if error else first, error, oom)
        )
    for rank, error in errors.items():
        found.append(rank_failure(rank, nodes[rank], hosts[nodes[rank]], 1, ended.time, error, False))
    return found or [_launcher_failure(plan.launcher, 0, hosts[0], ended)]


def _rank_errors(plan: Plan, paths: RunPaths) -> Dict[int, Dict[str, Any]]:
    left = {name for name in os.listdir(paths.errors_dir) if not name.endswith(".tmp")}
    found = {}
    for node in plan.nodes:
        for rank in node.ranks:
            name = os.path.basename(paths.rank_error(rank.rank))
            error = read_error(paths, rank.rank) if name in left or name + ".torchelastic" in left else None
            if error is not None:
                found[rank.rank] = error
    return found


def _launcher_failure(launcher: str, node_rank: int, host: str, ended: EndedProcess) -> Failure:
    """Nobody says that it was a rank."""
    name = signal_name(ended.code)
    how = f"was killed by signal {ended.code - 128} ({name})" if name else f"ended with code {ended.code}"
    said = _last_line(ended.process.log)
    what = "{} on node {} ({}) {}{}".format(launcher, node_rank, host, how, ": " + said if said else "")
    return Failure(Reason.SIGNAL if name else Reason.EXIT_CODE, what, node_rank, None, ended.code, ended.time)


def _daemon_failure(launcher: str, node_rank: int, host: str, ended: EndedProcess) -> Failure:
    """Rarely the cause: what stands on a node for the launcher ends when that does, and "remote process exited" lets
    others go first."""
    if ended.code in (126, 127):
        said = _last_line(ended.process.log)
        what = f"{launcher}'s daemon cannot be started on node {node_rank} ({host}): {said}"
    else:
        values = (launcher, node_rank, host, ended.code)
        what = "{}'s daemon on node {} ({}) ended with code {} (remote process exited)".format(*values)
    return Failure(Reason.EXIT_CODE, what, node_rank, None, ended.code, ended.time)


def _last_line(log: str) -> str:
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file.read()[-20_000:].splitlines()]
    except OSError:
        return ""
    told = [line for line in lines if line and not line.startswith("---")]
    if not told:
        return ""
    from worldsize.trust.secrets import mask_text

    return mask_text(told[-1])[:_LINE]
