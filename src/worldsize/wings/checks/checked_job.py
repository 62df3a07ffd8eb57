"""Conversion of the arguments of `check` into the job whose nodes are checked."""

from __future__ import annotations

import argparse

from worldsize.cli.run.job_source import requested_job, script_job
from worldsize.common.named_tuple import Any
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.set_option import apply_overrides, override_origins
from worldsize.service.computes import choose_compute
from worldsize.service.request import KeyOrigins
from worldsize.wings.checks.check_job import single_job


def checked_job(options: argparse.Namespace, config: Config) -> tuple[Job, tuple[str, ...], KeyOrigins]:
    """Return the job whose nodes `worldsize check` checks, the warnings about the job, and the origin of each of its
    keys (file and line, or option). Raise UsageError or JobError."""
    job, warnings, lines = _named_job(options)
    if options.sets:
        job = apply_overrides(job, options.sets)
    world = options.world or (None if _names_job(options) else _default_world(options, config))
    if world:
        job = with_world(job, world)
    return single_job(job)._replace(virtual_gpus=None), warnings, _origins(options, job, lines)


def _names_job(options: argparse.Namespace) -> bool:
    return options.job is not None or options.words is not None


def _named_job(options: argparse.Namespace) -> tuple[Job, tuple[str, ...], Any]:
    if options.words is None and options.job is None:
        return Job(command="true", argv=("true",), display_name="nodes", source="command line"), (), {}
    if options.words is None and options.job.endswith(".py"):
        return script_job(options.job), (), {}
    return requested_job(options)


def _default_world(options: argparse.Namespace, config: Config) -> str:
    """Return the world size ("NxM", nodes × ranks) of a node check without a job: two nodes on a cluster, so that their
    connection is checked, and one node on this machine."""
    settings = config.computes[choose_compute(config, options.compute, None)]
    return "1x1" if settings.type == LOCAL else "2x1"


def _origins(options: argparse.Namespace, job: Job, lines: Any) -> KeyOrigins:
    said = {"code": "--code"} if options.code else {}
    if options.world:
        said.update(dict.fromkeys(("resources.instance_count", "distribution.process_count_per_instance"), "-w"))
    return KeyOrigins(job.source, lines, {**said, **(override_origins(options.sets) if options.sets else {})})
