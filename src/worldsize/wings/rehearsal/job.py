"""The conversion of a cluster's job to a rehearsal on this machine."""

from __future__ import annotations

from worldsize.common.numbers import parse_digits
from worldsize.jobspec.batch_script import script_reader
from worldsize.jobspec.config.compute_keys import call_settings
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.job import Job
from worldsize.service.computes import requested_compute
from worldsize.service.submission.make_plan import with_client_paths

_MANY = 16
"""The number of ranks above which a notice warns about the load of one machine: each rank imports torch."""


def to_rehearsal(job: Job, config: Config, compute: str | None, asked: Job) -> tuple[Job, list[str]]:
    """Return `job` as a rehearsal on this machine, on virtual nodes with the number of virtual GPUs that the nodes of
    its own compute have, and a list of notices about what was left out.

    compute  the compute on which it would run, if the job names none. Only its configuration is read; it is not queried
    asked    the job before another size was requested: if it had a process for each GPU, a node of the other size has
             as many GPUs as processes, so that a wrong index is found there too
    """
    said = []
    name = requested_compute(config, compute, job.compute)[0]
    settings = config.computes.get(name)
    if settings is not None:
        job = with_client_paths(job, call_settings(settings.type, "path_mapping", (), settings.options))
        job = job._replace(offline=job.offline or bool(settings.offline))
    if job.modules:
        said.append(f"modules are not loaded in a rehearsal: {', '.join(job.modules)}")
        job = job._replace(modules=())
    if job.virtual_gpus is None:
        configured = settings.gpus_per_node if settings is not None else None
        gpus = _requested_gpus(job) or configured or _process_count(asked)
        job = job._replace(virtual_gpus=_process_count(job) if gpus == _process_count(asked) else gpus)
    ranks = job.distribution.world_size(job.resources.instance_count) if job.distribution else 1
    if ranks > _MANY:
        said.append(f"{ranks} ranks on this machine; most mistakes also show with -w 2x2")
    here = name if settings is not None and settings.type == LOCAL else LOCAL
    return job._replace(compute=here), said


def _requested_gpus(job: Job) -> int | None:
    """Return the number of GPUs per node that the job requests from its own compute, with `slurm.gpus_per_node` or in
    its batch script; None if it requests none."""
    count = parse_digits(str(job.slurm.get("gpus_per_node", "")).rpartition(":")[2])
    if count is not None:
        return count or None
    if job.batch_script is None:
        return None
    return script_reader().gpu_count(job) or None


def _process_count(job: Job) -> int:
    return processes_per_instance(job.distribution) or 1
