"""Submission of a script to Slurm exactly once, even over an unreliable connection to slurmctld."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from worldsize.compute.exactly_once import submit_once
from worldsize.compute.slurm.commands import run_slurm
from worldsize.compute.slurm.queue import find_jobs

_SBATCH_TIMEOUT = 150.0
"""Seconds to wait for sbatch, which itself tries for 120 s if slurmctld reports that it cannot accept a job now."""


def submit_script(
    argv: Sequence[str],
    script: str,
    name: str,
    environ: Mapping[str, str],
    umask: int,
) -> str:
    """Submit the batch script `script` with the sbatch command `argv` and return the job's number. `umask` is the
    job's. If sbatch's answer was lost, the job is looked up by its `name`.

    Raise SubmitRejected if the script is rejected for good. Raise SubmitAgain if no job was created in time.
    """

    def create() -> str:
        text = run_slurm(argv, environ=environ, timeout=_SBATCH_TIMEOUT, input=script, umask=umask)
        return text.strip().split(";")[0]

    return submit_once(create, partial(find_jobs, name, partial(run_slurm, environ=environ)))
