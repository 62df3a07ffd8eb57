"""The reason why a job waits, its expected start, and changes with which it would start sooner. Slurm itself estimates
them, with `sbatch --test-only`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest

from worldsize.compute.capabilities import Change, WaitExplanation
from worldsize.compute.slurm.cluster import PartitionRow
from worldsize.compute.slurm.commands import call
from worldsize.compute.slurm.job_rows import JobRow, span, time_of
from worldsize.compute.slurm.observe import waiting_words
from worldsize.compute.slurm.reasons import wait_reason
from worldsize.compute.slurm.states import state_of
from worldsize.errors import ConfigError, SubmitAgain
from worldsize.wings.slurm_reports.usage import gpus_of_tres

MAX_ESTIMATES = 6
"""The largest number of calls of sbatch. Each costs slurmctld about as much as a submission."""

_ESTIMATE_TIMEOUT = 15.0
_LEAST_GAIN = 60.0
_HOUR = 3600
_LIMITS_IF_UNLIMITED = (24 * _HOUR, 4 * _HOUR, _HOUR)
_ESTIMATE_LINE = re.compile(r"Job \d+ to start at (?P<start>\S+)(?: on cluster \S+)?(?: a)? using \d+ processors")
"""The line with the estimate. Source: allocate.c of Slurm's api; 20.11 to 24.11 print "using", 25.05 prints "[on
cluster C] a using". The line is written to stderr, with "sbatch: " before it."""

_OTHER_PLACES_HELP = re.compile(
    "Resources|Priority|ReqNodeNotAvail|NodeDown|Partition|QOS|Assoc|Max|Licenses|Reservation|BadConstraints|DOWN"
    "|None|^$"
)

StartEstimator = Callable[[Mapping[str, str]], "float | None"]
"""A function that estimates the start of a job with changed options of sbatch (Unix seconds); None if Slurm gives no
answer."""


def explain(row: JobRow, now: float) -> WaitExplanation:
    """Return the reason why the queued Slurm job in `row` waits, as a WaitExplanation, with the expected start if Slurm
    has estimated one."""
    stuck = state_of(row.state).stuck or wait_reason(row.reason).stuck
    words = waiting_words(row)
    expected = row.expected if row.expected and row.expected > now and not stuck else None
    if expected:
        words += f"; Slurm expects it to start in {span(expected - now)}"
    return WaitExplanation(row.reason, words, expected, stuck)


def is_worth_trying(row: JobRow) -> bool:
    """Return whether a waiting Slurm job could start sooner with another partition or time limit: false if it waits for
    another job, a time or a release."""
    return not state_of(row.state).stuck and bool(_OTHER_PLACES_HELP.search(row.reason))


def find_earlier_starts(
    row: JobRow, partitions: Iterable[PartitionRow], trial: StartEstimator, now: float
) -> list[Change]:
    """Return the changes of a waiting Slurm job's options, best first, that would start it at least a minute sooner
    than Slurm expects for the unchanged job. `trial` estimates the start with changed options.

    The unchanged job is estimated too. That estimate may be later than Slurm's own (the estimated job queues behind the
    job itself) or earlier (waiting jobs are not considered).
    """
    unchanged = trial({})
    start = min((known for known in (row.expected, unchanged) if known is not None), default=None)
    found = []
    for change in candidates(row, partitions)[: MAX_ESTIMATES - 1]:
        tried = trial(change)
        if tried is None:
            continue
        gain = None if start is None else start - max(tried, now)
        if gain is None or gain >= _LEAST_GAIN:
            options = {f"slurm.{name}": value for name, value in change.items()}
            found.append(Change(options, change_words(change, tried - now), tried, gain))
    return sorted(found, key=lambda each: (each.start, len(each.options)))


def candidates(row: JobRow, partitions: Iterable[PartitionRow]) -> list[dict[str, str]]:
    """Return the changes of a waiting Slurm job's options that are worth an estimate, as mappings of option to value:
    alternately, other partitions that have the nodes (with their time limit), and shorter time limits."""
    times = [{"time": time_limit_text(seconds)} for seconds in _shorter_limits(row.limit)]
    others = []
    own = row.partition.split(",")
    for partition in partitions:
        if partition.name in own or not _may_fit(row, partition):
            continue
        change = {"partition": partition.name}
        if partition.max_time is not None and (row.limit is None or row.limit > partition.max_time):
            change["time"] = time_limit_text(partition.max_time)
        others.append(change)
    return [change for turn in zip_longest(others, times) for change in turn if change]


def make_start_estimator(script: str, environ: Mapping[str, str]) -> StartEstimator:
    """Return a function that estimates the start of the batch script `script` with changed options of sbatch, in Unix
    seconds. It returns None if Slurm would refuse them, or does not answer."""

    def estimate_start(change: Mapping[str, str]) -> float | None:
        argv = ["sbatch", "--test-only", *("--{}={}".format(*option) for option in change.items())]
        try:
            return parse_start_estimate(call(argv, environ=environ, timeout=_ESTIMATE_TIMEOUT, input=script).err)
        except (SubmitAgain, ConfigError):
            return None

    return estimate_start


def parse_start_estimate(text: str) -> float | None:
    """Parse the estimated start of a job (Unix seconds) from the output of `sbatch --test-only`; None if there is
    none."""
    match = _ESTIMATE_LINE.search(text)
    return time_of(match["start"]) if match else None


def change_words(change: Mapping[str, str], wait: float) -> str:
    """Return a change of a job's Slurm options, and the seconds that the job would then wait, in words:
    "slurm.partition short with slurm.time 00:30:00: at once"."""
    options = " with ".join(f"slurm.{name} {value}" for name, value in change.items())
    return "{}: {}".format(options, "at once" if wait < _LEAST_GAIN else f"in {span(wait)}")


def time_limit_text(seconds: int) -> str:
    """Return a time limit in seconds in the format of slurm.time: "HH:MM:SS", from one day on "D-HH:MM:SS"."""
    minutes, left = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days}-" if days else "") + f"{hours:02d}:{minutes:02d}:{left:02d}"


def _shorter_limits(limit: int | None) -> list[int]:
    if limit is None:
        return list(_LIMITS_IF_UNLIMITED)
    tried = {limit // 2 // 60 * 60, limit // 4 // 60 * 60, _HOUR}
    return sorted((seconds for seconds in tried if 60 <= seconds < limit), reverse=True)


def _may_fit(row: JobRow, partition: PartitionRow) -> bool:
    count = max(row.node_count, 1)
    if not partition.up or partition.nodes < count:
        return False
    if partition.max_nodes is not None and partition.max_nodes < count:
        return False
    return partition.gpus_per_node * count >= (gpus_of_tres(row.tres) or 0)
