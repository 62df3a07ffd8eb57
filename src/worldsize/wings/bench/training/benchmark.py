"""`worldsize bench job.yml`: measures the user's own training at several world sizes."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time

from worldsize.cli.output import report_message
from worldsize.cli.run.job_source import requested_job, script_job
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import JobError, UsageError, WorldsizeError
from worldsize.jobspec.dump import job_tree
from worldsize.jobspec.job import Job
from worldsize.jobspec.overrides import with_world
from worldsize.service.computes import choose_compute
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.trust.secrets import mask_text, mask_tree
from worldsize.version import VERSION
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.scaling.presentation import charts as charts
from worldsize.wings.bench.scaling.presentation import sentences as scaling_sentences
from worldsize.wings.bench.scaling.presentation import tables as tables
from worldsize.wings.bench.session import Session, usual_worlds
from worldsize.wings.bench.training.measured_value import (
    MeasuredValues,
    compiled_pattern,
    logged_values,
    printed_values,
    usual_value,
    work_seconds,
)
from worldsize.wings.bench.worlds import World

_HOUR = 3600.0


class Measure(NamedTuple):
    """The definition of the speed of a run.

    metric, pattern  one of the two, or none: the time of its ranks
    is_time          whether the value is in seconds: less is better
    per_rank         whether the value is that of one rank: all ranks together do N times as much
    is_weak          whether each rank has the same work in a larger world, so that all ranks together do more
    unit             the unit of the rate
    """

    metric: str | None
    pattern: str | None
    is_time: bool
    per_rank: bool
    is_weak: bool
    unit: str

    def rate(self, value: float, ranks: int) -> float:
        """Return what all ranks together do in a second, or in an hour if whole runs are counted, computed from
        `value`, one measured value of a run with `ranks` ranks."""
        if self.is_time:
            return (_HOUR if self.is_whole_run else 1.0) * (ranks if self.is_weak else 1) / value
        return value * (ranks if self.per_rank else 1)

    @property
    def is_whole_run(self) -> bool:
        return self.metric is None and self.pattern is None


def add_options(group: Any) -> None:
    group.add_argument("--metric", metavar="NAME", help="a value that it logs (worldsize.log, TensorBoard, MLflow)")
    group.add_argument(
        "--pattern", metavar="REGEX", help=r"a number in its output, such as 'images/s: ([\d.]+)' (default: its time)"
    )
    group.add_argument("--seconds", action="store_true", help="the value is a time: less is better")
    group.add_argument("--per-rank", action="store_true", help="the value is one rank's, not the sum of all ranks")
    group.add_argument("--unit", metavar="TEXT", help="unit of the value: images/s")
    group.add_argument(
        "--scaling",
        choices=("strong", "weak"),
        help="strong (default): the work of the job stays the same in a larger world; weak: it grows with the ranks",
    )


def sentences(result: BenchResult) -> tuple[str, ...]:
    return (*scaling_sentences(result), *_thread_sentences(result))


def _thread_sentences(result: BenchResult) -> list[str]:
    """Return a sentence if the ranks of a benchmark of a training had different numbers of threads in different worlds.
    Without GPUs the cores are shared out, and a rank with fewer threads in a larger world is slower for that reason."""
    measured = [each for each in result.measurements if each.rate is not None]
    threads = {str(each.world): each.details.get("threads") for each in measured}
    counts = [count for count in threads.values() if type(count) is int]
    if any(each.gpus for each in measured) or len(set(counts)) < 2 or len(counts) < len(threads):
        return []
    said = ", ".join(f"{count} in {world}" for world, count in threads.items())
    mend = f"--set threads={min(counts)} gives every rank the same"
    return [f"Threads of each rank: {said}. On CPUs this affects the curve: {mend}."]


def measure(options: argparse.Namespace, session: Session) -> BenchResult:
    """Run the user's own job in each world of `session`, measure its speed, and return the BenchResult. Raise JobError,
    UsageError, WorldsizeError."""
    asked = _measure_of(options)
    if options.pattern:
        compiled_pattern(options.pattern)
    job, lines = _job_of(options)
    compute = choose_compute(session.config, session.compute, job.compute)
    if not session.worlds:
        session = session._replace(worlds=usual_worlds(session.config, compute))
    empty = BenchResult(
        "job",
        _title(job, options.what),
        asked.unit,
        "weak" if asked.is_weak else "strong",
        compute,
        time.time(),
        VERSION,
        _settings(job, options, session, asked),
    )
    return session.measure_worlds(
        empty,
        lambda world: _at_world(job, world),
        lambda run, status, world: _read(run, status, world, asked),
        lines,
    )


def _measure_of(options: argparse.Namespace) -> Measure:
    """Return the definition of a run's speed that the options --metric, --pattern, --seconds, --per-rank and --scaling
    give. Raise UsageError for options that contradict each other."""
    if options.metric and options.pattern:
        raise UsageError("--metric and --pattern cannot be combined", None, "name one of them")
    is_whole_run = not (options.metric or options.pattern)
    for name, value in (("--seconds", options.seconds), ("--per-rank", options.per_rank), ("--unit", options.unit)):
        if value and is_whole_run:
            raise UsageError(
                f"{name} describes the value: name the value as well", None, "add --metric NAME or --pattern REGEX"
            )
    if options.seconds and options.per_rank:
        raise UsageError(
            "a time is not the sum of the ranks' times", "--per-rank", "leave one of --seconds, --per-rank out"
        )
    is_weak = options.scaling == "weak"
    unit = _unit(options, is_whole_run, is_weak)
    return Measure(options.metric, options.pattern, options.seconds or is_whole_run, options.per_rank, is_weak, unit)


def _unit(options: argparse.Namespace, is_whole_run: bool, is_weak: bool) -> str:
    """Return the unit of the rate of a benchmark of a training. With weak scaling, a whole run does the work of as many
    runs as it has ranks."""
    if is_whole_run:
        return "runs of one rank/h" if is_weak else "runs/h"
    said: str = options.unit or options.metric or "value"
    return f"1/({said})" if options.seconds else said


def _job_of(options: argparse.Namespace) -> tuple[Job, Any]:
    """Return the job that the argument WHAT of `worldsize bench`, or the command after `--`, names, and the line of
    each key in the job file. Raise UsageError, JobError."""
    if options.words is None and options.what.endswith(".py"):
        return script_job(options.what), {}
    named = argparse.Namespace(**{**vars(options), "job": options.what, "code": None})
    job, warnings, lines = requested_job(named)
    for warning in warnings:
        report_message("warning: " + warning)
    return job, lines


def _at_world(job: Job, world: World) -> Job:
    """Return `job` with the numbers of nodes and ranks of `world`. Raise JobError for a job that defines its roles
    itself, because a world cannot set its ranks."""
    try:
        return with_world(job, str(world))
    except JobError as error:
        error.hint = "such a job is measured at one size only: it has roles"
        raise


def _title(job: Job, what: str | None) -> str:
    return job.display_name or (os.path.basename(os.path.abspath(what)) if what else mask_text(job.command)[:80])


def _settings(job: Job, options: argparse.Namespace, session: Session, asked: Measure) -> dict[str, str]:
    """Return the settings of a benchmark of a training, by name, that distinguish one measurement from another: the
    words of the command line, and what they change in the job."""
    value = f"the values {asked.metric}" if asked.metric else f"numbers in the output that match {asked.pattern}"
    measured = "the time of its ranks, from their start to their end" if asked.is_whole_run else value
    found = {"job": os.path.relpath(os.path.abspath(options.what), session.cwd)} if options.what else {}
    found["command"] = mask_text(job.command)[:300]
    found["measured"] = measured + (", seconds" if asked.is_time and not asked.is_whole_run else "")
    if asked.per_rank:
        found["measured"] += ", of each rank"
    return {**found, "digest of the job": _digest(job), **session.shown_settings()}


def _digest(job: Job) -> str:
    """Return a digest of a job's keys and values, without its location and without secrets. A job with different inputs
    is another job."""
    keys = mask_tree({**job_tree(job), "code": None})
    return hashlib.sha256(json.dumps(keys, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _read(run: Run, status: Status, world: World, asked: Measure) -> Measurement:
    """Return the measurement of a run of the user's job, by the definition of speed `asked`. Raise WorldsizeError if
    the run has not reported the value to measure."""
    if asked.is_whole_run:
        seconds = work_seconds(run)
        if seconds is None:
            raise WorldsizeError("its scheduler has started it again: its last attempt does not cover all of the work")
        details: dict[str, Any] = {"source": "the ranks' start to their end", "threads": run.plan.threads}
        return Measurement(world, rate=asked.rate(seconds, world.ranks), seconds=seconds, details=details)
    found = _values(run, asked)
    rates = tuple(asked.rate(value, world.ranks) for value in found.values)
    seconds = usual_value(found.values) if asked.is_time else work_seconds(run)
    details = {"source": found.source, "values": len(rates), "threads": run.plan.threads}
    return Measurement(world, rate=usual_value(rates), rates=_spaced(rates), seconds=seconds, details=details)


_KEPT = 1000
"""The maximum number of single values in result.json."""


def _spaced(rates: tuple[float, ...]) -> tuple[float, ...]:
    """Return at most _KEPT of the rates of a run, evenly from the whole run. The first ones alone would have a
    different spread."""
    return rates[:: -(-len(rates) // _KEPT) or 1]


def _values(run: Run, asked: Measure) -> MeasuredValues:
    if asked.metric is not None:
        return logged_values(run, asked.metric)
    return printed_values(run, compiled_pattern(asked.pattern or ""))
