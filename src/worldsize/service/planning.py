"""Job + the compute's facts → Plan. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from worldsize.compute.base import ComputeFacts
from worldsize.errors import PlanError
from worldsize.plan.launch import Plan
from worldsize.plan.layout import bind_cores, node_major
from worldsize.plan.paths import RunPaths
from worldsize.spec.distribution import PlainDistribution, PyTorchDistribution
from worldsize.spec.expressions import input_text, resolve
from worldsize.spec.job import Input, Job, Output

_SUPPORTED = (PlainDistribution, PyTorchDistribution)


def make_plan(
    job: Job, facts: ComputeFacts, compute: str, paths: RunPaths, created: float, path: tuple[str, ...]
) -> Plan:
    """Raises PlanError where the job and the compute do not fit, JobError for an expression that names nothing."""
    distribution = job.distribution or PlainDistribution()
    if not isinstance(distribution, _SUPPORTED):
        raise PlanError(
            "this release cannot run a %s distribution yet" % distribution.type,
            "distribution.type",
            "pytorch, and none at all, run today",
        )
    processes = distribution.process_count_per_instance
    _refuse_shared_gpus(job, facts, processes)
    nodes = node_major(job.resources.instance_count, processes)
    return Plan(
        run_id=paths.run_id,
        name=job.display_name or job.name or _name(job),
        compute=compute,
        created=created,
        attempt=0,
        nodes=nodes,
        argv=job.argv or ("bash", "-c", resolved_command(job, paths)),
        environment={**_asked_threads(job), **_values(job, paths), **_variables(job, paths)},
        framework=distribution.type,
        launcher=getattr(distribution, "launcher", "direct"),
        conventions=tuple(job.conventions),
        threads=_threads(job, facts, len(nodes), processes),
        binding=_binding(job, facts, processes),
        visible_devices=job.visible_devices,
        gpus=facts.gpus_per_node,
        grace=job.grace,
        timeout=job.limits.timeout,
        path=path,
        umask=0o027 if job.share == "group" else 0o077,
    )


def resolved_command(job: Job, paths: RunPaths) -> str:
    return _resolved(job, paths, job.command, "command")


def _variables(job: Job, paths: RunPaths) -> dict[str, str]:
    """The job's own, with its expressions resolved."""
    return {
        name: _resolved(job, paths, text, "environment_variables." + name) if "${{" in text else text
        for name, text in job.environment_variables.items()
    }


def _resolved(job: Job, paths: RunPaths, text: str, where: str) -> str:
    inputs = {name: input_text(value) for name, value in job.inputs.items() if not _absent(value)}
    outputs = {name: output_path(paths, name, output) for name, output in job.outputs.items()}
    absent = [name for name, value in job.inputs.items() if _absent(value)]
    return resolve(text, inputs, outputs, where, absent)


def output_path(paths: RunPaths, name: str, output: Output) -> str:
    """Where a named output is written: its own local path, else a place under the run's outputs/."""
    if output.path:
        from worldsize.spec.paths import is_remote

        if not is_remote(output.path):
            return output.path
    return os.path.join(paths.outputs, name)


def _absent(value: object) -> bool:
    return isinstance(value, Input) and value.path is None


def _values(job: Job, paths: RunPaths) -> dict[str, str]:
    """Every input's exact value and every output's path, by its name and by its name in capitals."""
    values: Mapping[str, str] = {
        **{"INPUT_" + name: input_text(value) for name, value in job.inputs.items() if not _absent(value)},
        **{"OUTPUT_" + name: output_path(paths, name, output) for name, output in job.outputs.items()},
    }
    exact = {"WORLDSIZE_" + re.sub(r"\W", "_", name): text for name, text in values.items()}
    return {**{name.upper(): text for name, text in exact.items()}, **exact}


def _name(job: Job) -> str:
    words = job.argv or tuple(job.command.split())
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0] if words else "run")
    return os.path.splitext(os.path.basename(script))[0][:40]


def _asked_threads(job: Job) -> dict[str, str]:
    """What the job asks for wins over what a shell left behind; a share worked out by us does not."""
    return {"OMP_NUM_THREADS": str(job.threads)} if job.threads else {}


def _threads(job: Job, facts: ComputeFacts, nodes: int, processes: int) -> int | None:
    """The job's; else the cores of a shared host over all its ranks; else None, and each node shares out its own."""
    if job.threads:
        return job.threads
    if facts.cores_per_node is None:
        return None
    sharing = processes * nodes if facts.shared_host else processes
    return max(1, facts.cores_per_node // sharing)


def _binding(job: Job, facts: ComputeFacts, processes: int) -> tuple[tuple[int, ...], ...]:
    """Nothing on a machine that other runs share, where two runs would land on the same cores; there the kernel
    balances better. A compute with nodes of its own will bind."""
    if job.bind == "none" or facts.shared_host or facts.cores_per_node is None:
        return ()
    return bind_cores(processes, tuple(range(facts.cores_per_node)))


def _refuse_shared_gpus(job: Job, facts: ComputeFacts, processes: int) -> None:
    gpus = facts.gpus_per_node
    if gpus is None or job.share_gpus or processes <= gpus:
        return
    if gpus or job.visible_devices:
        raise PlanError(
            "%d processes per node, but a node has %d GPU%s" % (processes, gpus, "" if gpus == 1 else "s"),
            "distribution.process_count_per_instance",
            "one process per GPU: ask for %d, or set share_gpus: true" % max(gpus, 1),
        )
