"""The reader for the data of a run's efficiency: of each node's samples the first and the last line, of the head's
events one, and of the values that ranks have logged the first lines. The cost does not depend on the size of the files.
"""

from __future__ import annotations

import json

from worldsize.common.json_values import PARSE_ERRORS, is_number
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import ranks_start_time
from worldsize.state.records import Status
from worldsize.wings.metrics.agent.records import NodeUse, SamplesHeader, from_line
from worldsize.wings.metrics.efficiency import Efficiency, Held, NodeRecord, Times, measure_efficiency
from worldsize.wings.metrics.run_files import rank_files, read_ends

_END = 16 << 10
"""The bytes that are read at each end of a file of samples: enough for a line about 64 GPUs."""

_LOGGED = 8 << 10


def read_efficiency(paths: RunPaths, plan: Plan, status: Status, is_local: bool) -> Efficiency | None:
    """Return the efficiency figures of the attempt of `paths`; None if it has not started or ended, or too little is
    known. `is_local` is whether its nodes are virtual and share this machine. Never raises because of the content of
    the files."""
    if status.started is None or status.ended is None:
        return None
    held = Held(len(plan.nodes), None if is_local else plan.gpus, is_local)
    records = [_read_node(paths.samples(node.node_rank), node.node_rank) for node in plan.nodes]
    logged = _read_first_steps(paths)
    times = Times(status.started, status.ended, ranks_start_time(paths), logged)
    return measure_efficiency(held, times, [record for record in records if record is not None])


def _read_node(path: str, node_rank: int) -> NodeRecord | None:
    """Return the first and the last record of a node's samples file; None if its agent could not write the first and
    last line, or one of them is too long."""
    head, tail = read_ends(path, _END)
    first, end, _ = head.partition(b"\n")
    if not end or not tail.endswith(b"\n"):
        return None
    header, use = from_line(first), from_line(tail[:-1].rpartition(b"\n")[2])
    if isinstance(header, SamplesHeader) and isinstance(use, NodeUse) and header.node_rank == node_rank:
        return NodeRecord(header, use)
    return None


def _read_first_steps(paths: RunPaths) -> tuple[float, float] | None:
    """Return the times, in Unix seconds, of the first value that the lowest rank with values has passed to
    `worldsize.log`, and of its first value of a different step. Only the beginning of the rank's file is read. None
    without two different steps."""
    files = next(iter(rank_files([paths]).values()), [])
    lines = [line for _, path in files for line in read_ends(path, _LOGGED)[0].split(b"\n")[:-1]]
    steps = [step for step in map(_step, lines) if step is not None]
    later = [time for step, time in steps if step != steps[0][0]]
    return (steps[0][1], later[0]) if later else None


def _step(line: bytes) -> tuple[float, float] | None:
    """Return the step and the time of a line that `worldsize.log` has written; None if the line has no step, or is
    damaged."""
    try:
        found: Any = json.loads(line)
        step, time = found["step"], found["time"]
    except PARSE_ERRORS:
        return None
    return (step, float(time)) if is_number(step) and is_number(time) else None
