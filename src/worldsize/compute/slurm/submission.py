"""Submission of a script to Slurm exactly once, even over an unreliable connection to slurmctld."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from worldsize.compute.slurm.commands import run_slurm
from worldsize.compute.slurm.queue import find_jobs
from worldsize.errors import SubmitAgain

PATIENCE = 120.0
"""Maximum number of seconds that a controller may be away. A restart, or the change to its backup, takes less."""

_LOOKS = 2
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0
_SBATCH_TIMEOUT = 150.0
"""Seconds to wait for sbatch, which itself tries for 120 s if slurmctld reports that it cannot accept a job now."""


def submit_once(
    argv: Sequence[str],
    script: str,
    name: str,
    environ: Mapping[str, str],
    umask: int,
) -> str:
    """Submit the batch script `script` with the sbatch command `argv` and return the job's number. `umask` is the
    job's. If sbatch's answer was lost, the job is looked up by its `name`, twice, before the script is submitted again,
    since slurmctld may still be creating it.

    Raise SubmitRejected if the script is rejected for good. Raise SubmitAgain if no job was created within `PATIENCE`
    seconds.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    ask = partial(run_slurm, environ=environ)
    looks = 0
    while True:
        try:
            if looks == 0:
                looks = _LOOKS
                text = run_slurm(argv, environ=environ, timeout=_SBATCH_TIMEOUT, input=script, umask=umask)
                return text.strip().split(";")[0]
            found = find_jobs(name, ask)
            looks -= 1
            if found:
                return found[0]
        except SubmitAgain:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
