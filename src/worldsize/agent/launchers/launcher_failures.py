"""Evidence of a failure in a run whose ranks were started by a launcher and not by the agent: the exceptions that the
ranks have recorded, and the end of the launcher's log."""

from __future__ import annotations

import os

from worldsize.agent.launchers.rank_process import NodeEnd
from worldsize.agent.outcome.rank_failure import read_error
from worldsize.common.atomic_files import read_tail
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.records import Failure, Reason

_LINE = 300
_LOG_TAIL_BYTES = 20_000


class FailedRank(NamedTuple):
    """The rank whose failure a launcher saw first, and its exit code, 128+N for signal N."""

    rank: int
    code: int


def rank_errors(plan: Plan, paths: RunPaths) -> dict[int, dict[str, Any]]:
    """Return the exceptions that ranks of the plan have recorded in the attempt's error files, as a dictionary from
    rank to the recorded error."""
    left = {name for name in os.listdir(paths.errors_dir) if not name.endswith(".tmp")}
    found = {}
    for node in plan.nodes:
        for rank in node.ranks:
            name = os.path.basename(paths.rank_error(rank.rank))
            error = read_error(paths, rank.rank) if name in left or name + ".torchelastic" in left else None
            if error is not None:
                found[rank.rank] = error
    return found


def launcher_failure(end: NodeEnd) -> Failure:
    """Return a Failure of the launcher's process on a node, for the case that nothing shows that a rank failed. Its
    message contains the launcher's exit code or signal, and the last line of its log."""
    process, code, time = end.ended
    name = signal_name(code)
    how = f"was killed by signal {code - 128} ({name})" if name else f"ended with code {code}"
    said = last_line(process.log)
    what = f"{end.plan.launcher} on node {end.node_rank} ({end.host}) {how}"
    reason = Reason.SIGNAL if name else Reason.EXIT_CODE
    return Failure(reason, f"{what}: {said}" if said else what, end.node_rank, None, code, time)


def last_line(log: str) -> str:
    """Return the last line of a launcher's log file that is neither empty nor a separator, with secrets masked; "" if
    the log has none."""
    lines = [line.strip() for line in read_tail(log, _LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("---")]
    if not told:
        return ""
    from worldsize.trust.secrets import mask_text

    return mask_text(told[-1])[:_LINE]
