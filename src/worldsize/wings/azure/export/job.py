"""Conversion of a job to a pure file of Azure. Keys that only worldsize knows are translated, left out, or refused.
Pure, except that files of requirements are read."""

from __future__ import annotations

import math
import os
from typing import Any

from worldsize.jobspec.dump import job_tree
from worldsize.jobspec.job import Input, Job, Output
from worldsize.jobspec.paths import is_remote
from worldsize.trust.secrets import is_secret
from worldsize.wings.azure.export.environment import export_environment
from worldsize.wings.azure.export.rows import IMPOSSIBLE, LEFT_OUT, TRANSLATED, ExportedJob, ExportRow

SCHEMA = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"

_SAME = (
    "name",
    "display_name",
    "experiment_name",
    "description",
    "tags",
    "properties",
    "queue_settings",
    "services",
    "identity",
    "parent_job_name",
)
_DISTRIBUTION_KEYS = {
    "pytorch": ("process_count_per_instance",),
    "mpi": ("process_count_per_instance",),
    "tensorflow": ("worker_count", "parameter_server_count"),
    "ray": (
        "port",
        "address",
        "include_dashboard",
        "dashboard_port",
        "head_node_additional_args",
        "worker_node_additional_args",
    ),
}
_REFUSED_ROLES = ("chief", "evaluator")
_IN_PLACE_OF = {
    "none": ("pytorch", "each process gets the variables of PyTorch"),
    "deepspeed": ("pytorch", "deepspeed.init_distributed() reads PyTorch's variables"),
    "horovod": ("mpi", "Horovod finds its ranks by MPI"),
    "jax": ("mpi", "jax.distributed.initialize() finds its ranks by MPI"),
}
_REFUSED = {
    "additional_includes": "a job of Azure has one directory of code: put what it includes there",
    "autotune": "trials are a sweep, which Azure has as a job of another type: export the best configuration",
    "matrix": "several runs are a sweep, a job of another type on Azure: leave matrix out, and export one run",
    "count": "Azure submits one run at a time",
    "batch_script": "a batch script is for Slurm only: write its command as `command:`",
    "data_parallel": "only worldsize trains a script for one process on all ranks: `worldsize convert` rewrites it",
}
_LEFT_OUT = {
    "at_once": "it has no meaning for a single run",
    "conventions": "Azure sets its own variables",
    "grace": "Azure ends processes in its own way",
    "watchdog": "Azure does not detect hangs: set limits.timeout",
    "preload": "each rank imports its modules by itself",
    "hang_timeout": "Azure does not detect idle ranks: set limits.timeout",
    "notify": "no part of worldsize runs there to call it",
    "strict": "Azure looks at exit codes only",
    "bind": "Azure binds no ranks to CPUs",
    "share": "the workspace decides who may see a run",
    "share_gpus": "Azure does not count GPUs",
    "virtual_gpus": "a rehearsal is for this machine",
    "offline": "nodes of Azure reach the network",
    "modules": "images have no modules",
    "slurm": "for Slurm only",
    "hpcpack": "for HPC Pack only",
    "stage": "nodes of Azure reach the network",
    "input_types": "a job of Azure has values only",
}


def export_job(job: Job, base: str) -> ExportedJob:
    """Return `job` as the tree of keys of Azure's commandJob file in the directory `base`, to which paths are relative,
    with a row about each key that is translated, left out or impossible.

    The tree is valid only if no row is impossible.
    """
    given = job_tree(job)
    rows = [ExportRow(key, IMPOSSIBLE, text) for key, text in _REFUSED.items() if key in given]
    rows += [ExportRow(key, LEFT_OUT, text) for key, text in _LEFT_OUT.items() if key in given]
    environment, of_environment = export_environment(job.environment, base)
    tree: dict[str, Any] = {"$schema": SCHEMA, "type": "command"}
    tree.update({key: given[key] for key in _SAME if key in given})
    tree["command"] = _command(job, rows)
    if job.code is not None:
        tree["code"] = _relative(job.code, base)
    tree["environment"] = environment
    tree["environment_variables"] = _variables(job, rows)
    tree["distribution"] = _distribution(job, rows)
    tree["compute"] = _compute(job, rows)
    tree["resources"] = given.get("resources")
    if job.limits.timeout is not None:
        tree["limits"] = {"timeout": math.ceil(job.limits.timeout)}
    tree["inputs"] = {
        name: _input(name, value, base, rows) for name, value in job.inputs.items() if not _is_absent(value)
    }
    tree["outputs"] = {name: _output(name, value, rows) for name, value in job.outputs.items()}
    rows += [
        ExportRow(f"inputs.{name}", LEFT_OUT, "it has no value")
        for name, value in job.inputs.items()
        if _is_absent(value)
    ]
    kept = {key: value for key, value in tree.items() if value not in (None, {}, [])}
    return ExportedJob(kept, (*rows, *of_environment))


def _command(job: Job, rows: list[ExportRow]) -> str:
    command = job.command
    if job.argv:
        rows.append(ExportRow("argv", TRANSLATED, "its words, quoted, as command"))
    before = list(job.setup)
    if job.setup:
        rows.append(ExportRow("setup", TRANSLATED, "each process executes its lines before the command"))
    if job.visible_devices:
        before.append("export CUDA_VISIBLE_DEVICES=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-0}}")
        rows.append(ExportRow("visible_devices", TRANSLATED, "a line before the command"))
    return "\n".join(["set -e", *before, "set +e", command]) if before else command


def _variables(job: Job, rows: list[ExportRow]) -> dict[str, str]:
    """Return the environment variables of the exported job without secrets, since a file is stored and shown. Add rows
    about the variables that are left out or translated to `rows`."""
    found = {}
    for name, value in job.environment_variables.items():
        if is_secret(name, value):
            rows.append(_secret(f"environment_variables.{name}"))
        else:
            found[name] = value
    rows += [_secret(f"secrets.{name}") for name in job.secrets]
    if job.threads is not None:
        found.setdefault("OMP_NUM_THREADS", str(job.threads))
        rows.append(ExportRow("threads", TRANSLATED, "OMP_NUM_THREADS"))
    return found


def _secret(key: str) -> ExportRow:
    return ExportRow(
        key, LEFT_OUT, "a secret must not be in a file: let the script read it from the workspace's key vault"
    )


def _distribution(job: Job, rows: list[ExportRow]) -> dict[str, Any] | None:
    said = job.distribution
    if said is None:
        return None
    kind = said.type
    if kind in _IN_PLACE_OF:
        kind, why = _IN_PLACE_OF[kind]
        rows.append(ExportRow("distribution.type", TRANSLATED, f"{kind}: {why}"))
    if kind not in _DISTRIBUTION_KEYS:
        rows.append(ExportRow("distribution.type", IMPOSSIBLE, f"Azure has no {kind}: use one of its four kinds"))
        return None
    for key in said._fields:
        if key != "type" and key not in _DISTRIBUTION_KEYS[kind] and getattr(said, key) != getattr(type(said)(), key):
            rows.append(
                ExportRow(f"distribution.{key}", IMPOSSIBLE, "Azure starts only workers and parameter servers")
                if key in _REFUSED_ROLES
                else ExportRow(f"distribution.{key}", LEFT_OUT, "Azure starts the processes itself")
            )
    keys = {key: getattr(said, key, None) for key in _DISTRIBUTION_KEYS[kind]}
    return {"type": kind, **{key: value for key, value in keys.items() if value is not None}}


def _compute(job: Job, rows: list[ExportRow]) -> str | None:
    if job.compute is None or job.compute.startswith("azureml:"):
        return job.compute
    what = f"{job.compute} is a compute of worldsize: --set compute=azureml:NAME names one of the workspace"
    rows.append(ExportRow("compute", LEFT_OUT, what))
    return None


def _is_absent(value: object) -> bool:
    return isinstance(value, Input) and value.path is None


def _input(name: str, value: Any, base: str, rows: list[ExportRow]) -> Any:
    if not isinstance(value, Input):
        return value
    for key in ("sha256", "max_size", "description"):
        if getattr(value, key) is not None:
            rows.append(ExportRow(f"inputs.{name}.{key}", LEFT_OUT, "Azure's file has no such key"))
    tree = {"type": value.type, "path": _relative(value.path or "", base), "mode": value.mode}
    return {key: item for key, item in tree.items() if item is not None}


def _output(name: str, output: Output, rows: list[ExportRow]) -> dict[str, Any]:
    tree: dict[str, Any] = {"type": output.type, "mode": output.mode, "name": output.name, "version": output.version}
    if output.path is not None and is_remote(output.path):
        tree["path"] = output.path
    elif output.path is not None:
        what = "a directory of this machine: the workspace keeps the output"
        rows.append(ExportRow(f"outputs.{name}.path", LEFT_OUT, what))
    if output.description is not None:
        rows.append(ExportRow(f"outputs.{name}.description", LEFT_OUT, "Azure's file has no such key"))
    return {key: item for key, item in tree.items() if item is not None}


def _relative(path: str, base: str) -> str:
    """Return a local path relative to `base`, the directory of the exported file. A path on a service is returned
    unchanged."""
    return path if is_remote(path) else os.path.relpath(path, base)
