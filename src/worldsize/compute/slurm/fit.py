"""Whether a partition that a job may go to can ever take it. Pure.

Slurm itself may not say: unless the cluster sets EnforcePartLimits, it takes a job that exceeds its partition's limits,
and lets it wait for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from worldsize.compute.base import CheckResult
from worldsize.compute.slurm.cluster import PartitionRow
from worldsize.compute.slurm.options import Option
from worldsize.compute.slurm.words import span

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})")


def candidates(options: Sequence[Option], rows: Iterable[PartitionRow]) -> list[PartitionRow]:
    """The partitions that the job names, or the default one."""
    wanted = dict(options).get("partition")
    return [row for row in rows if (row.name in wanted.split(",") if wanted else row.default)]


def misfits(options: Sequence[Option], gpus: int | None, rows: Sequence[PartitionRow]) -> list[CheckResult]:
    """Why none of the partitions takes it; nothing where one does, or where none is known.

    A QOS may lift limits of time and nodes, so they are no errors where the job names one.
    """
    return min((list(_misfits(dict(options), gpus, row)) for row in rows), key=len, default=[])


def _misfits(said: Mapping[str, str | None], gpus: int | None, row: PartitionRow) -> Iterator[CheckResult]:
    level, unless = ("notice", "") if "qos" in said else ("error", ", or name the slurm.qos that allows it")
    nodes, limit = _least(said.get("nodes") or "1"), limit_seconds(said.get("time") or "")
    if nodes > row.nodes:
        what = "%d nodes are asked for, and partition %s has %d" % (nodes, row.name, row.nodes)
        yield CheckResult("error", what, "resources.instance_count", "`worldsize nodes` shows what there is")
    elif row.max_nodes is not None and nodes > row.max_nodes:
        what = "%d nodes are asked for, and partition %s gives one job %d" % (nodes, row.name, row.max_nodes)
        yield CheckResult(level, what, "resources.instance_count", "ask for fewer%s" % unless)
    if gpus and gpus > row.gpus_per_node:
        what = "%d GPUs per node are asked for, and nodes of partition %s have %d" % (gpus, row.name, row.gpus_per_node)
        yield CheckResult("error", what, "slurm.gpus_per_node", "`worldsize nodes` shows what there is")
    if limit is not None and row.max_time is not None and limit > row.max_time:
        what = "a time limit of %s is longer than partition %s allows (%s)" % (
            span(limit),
            row.name,
            span(row.max_time),
        )
        yield CheckResult(level, what, "slurm.time", "shorten it%s" % unless)


def _least(nodes: str) -> int:
    """2 of `2` and of `2-4`, as a user's own script may say it."""
    found = re.match(r"[0-9]{1,15}", nodes)
    return int(found[0]) if found else 1


def limit_seconds(text: str) -> int | None:
    """Seconds of a time limit as sbatch takes it: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; None for UNLIMITED and such."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        return None
    parts = [int(part) for part in found["rest"].split(":")]
    if found["days"] is None and len(parts) < 3:
        parts = [0, *parts]
    hours, minutes, seconds = [*parts, 0, 0][:3]
    return ((int(found["days"] or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
