"""Rehearsals on the command line: the verb `rehearse`, the option `--virtual-gpus`, and the notices about such runs."""

from __future__ import annotations

import argparse

from worldsize.cli.output import report_message
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.service.submission.submit import refuse_array_rehearsal
from worldsize.state.notices import Notice
from worldsize.wings.rehearsal.job import to_rehearsal

MOST = 1024


def with_rehearsal(job: Job, options: argparse.Namespace, config: Config, asked: Job) -> tuple[Job, tuple[Notice, ...]]:
    """Return `job` as changed by the option `--virtual-gpus` and the verb `rehearse`, and the notices about the
    changes. `asked` is the job before `-w` changed its size. Raise JobError, UsageError."""
    told: tuple[Notice, ...] = ()
    if options.virtual_gpus is not None:
        if not 1 <= options.virtual_gpus <= MOST:
            raise UsageError(f"{options.virtual_gpus} GPUs per node: 1 to {MOST}", "--virtual-gpus")
        job = job._replace(virtual_gpus=options.virtual_gpus)
    if options.verb == "rehearse":
        job, said = to_rehearsal(job, config, options.compute, asked)
        options.compute = None
        for text in said:
            report_message("notice: " + text)
        told = tuple(Notice("rehearsal", text) for text in said)
    refuse_array_rehearsal(job)
    return job, told
