"""A user's own batch script on a real cluster: its #SBATCH lines are said to sbatch as they are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldsize.compute.slurm.options import Option, merged, sbatch_options
from worldsize.plan.launch import Plan
from worldsize.spec.batchjob import script_as_asked
from worldsize.spec.batchslurm import GPUS, own_options
from worldsize.spec.job import Job

_SIZE = ("nodes", "ntasks-per-node")


def script_options(defaults: Mapping[str, Any], gpus_per_node: int | None, job: Job, plan: Plan) -> list[Option]:
    """The compute's defaults under what the script says, under what the job says beside it (its size, `slurm:`)."""
    own = dict(own_options(script_as_asked(job)))
    base = dict(sbatch_options(merged(defaults, job._replace(slurm={}), gpus_per_node), plan))
    said = dict(sbatch_options(job.slurm, plan))
    for name in _SIZE:
        del base[name], said[name]
    if any(name in own for name in GPUS):
        base.pop("gpus-per-node", None)
    return list({**base, **own, **said}.items())
