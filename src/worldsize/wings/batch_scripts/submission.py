"""The plan of a batch script, and the files that its run directory contains for it (`ScriptSubmission` of the core's
`service/submission/batch_script.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.compute.base import ComputeFacts
from worldsize.errors import StorageError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import BatchPlan, NodePlan, Plan, RankPlan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import source_file
from worldsize.wings.batch_scripts.script.job import effective_script, script_of_job, script_origin
from worldsize.wings.batch_scripts.script.parse import BatchScript
from worldsize.wings.batch_scripts.script.size import AllocationRequest, parse_allocation_request, parse_sbatch_array
from worldsize.wings.batch_scripts.script.variables import sbatch_variables

SCRIPT = "inrank/script.sh"
_SHIMS = "inrank/shims/"
_REAL = "inrank/real/"
_VIRTUAL = {
    "slurm": ("srun", "scontrol", "sbcast"),
    "slurm.py": ("slurm.py",),
    "module": ("module", "ml"),
    "conda": ("conda", "mamba", "micromamba"),
    "activate": ("activate",),
    "hostname": ("hostname",),
    "silent": ("squeue", "sinfo", "sacct", "sstat", "sprio", "sshare"),
    "refused": ("sbatch", "salloc", "scancel", "sattach", "strigger"),
    "bash_env": ("bash_env",),
}
"""The programs on virtual nodes that each file of shims/ provides."""


def argv(job: Job, paths: RunPaths) -> tuple[str, ...]:
    """Return the command that starts the job's batch script in the run directory as the kernel would: the words of its
    interpreter and its path. The command works even if the script's file system does not permit executing files."""
    return (*script_of_job(job).interpreter, paths.script)


def with_script(plan: Plan, job: Job, facts: ComputeFacts) -> Plan:
    """Return `plan` with the batch script of `job` in place of a command. On virtual nodes of a shared host the script
    starts as sbatch would start it; elsewhere it starts inside the allocation that its own options request."""
    script, source = effective_script(job), script_origin(job)
    size = parse_allocation_request(script, source)
    array = parse_sbatch_array(script, source)
    hosts = tuple(virtual_host(index) for index in range(size.nodes)) if facts.shared_host else ()
    variables: Mapping[str, str] = {}
    if hosts:
        variables = sbatch_variables(script, size, hosts)
    batch = BatchPlan(hosts, variables, _cpus(script, size, facts), array.indices if array else ())
    timeout = plan.timeout or (size.seconds if hosts else None)
    return plan._replace(nodes=_nodes(size, plan), launcher="batch", batch=batch, timeout=timeout, threads=None)


def virtual_host(index: int) -> str:
    """Return the name of a virtual node: a loopback address of this machine, which every program can reach without a
    name lookup."""
    return f"127.0.{index // 254}.{index % 254 + 1}"


def _cpus(script: BatchScript, asked: AllocationRequest, facts: ComputeFacts) -> int:
    """Return the number of CPUs of each node of a batch script's run: as many as the script requests, or at least the
    machine's if it requests whole nodes."""
    return max(asked.cpus, facts.cores_per_node or 1) if script.has_option("exclusive") else asked.cpus


def _nodes(asked: AllocationRequest, plan: Plan) -> tuple[NodePlan, ...]:
    most = max(len(node.ranks) for node in plan.nodes)
    if max(asked.tasks) < most:
        return node_major_layout(asked.nodes, most)
    nodes, first = [], 0
    for node_rank, count in enumerate(asked.tasks):
        ranks = tuple(RankPlan(first + local, local, "worker", first + local) for local in range(count))
        nodes.append(NodePlan(node_rank, ranks))
        first += count
    return tuple(nodes)


def files(job: Job, virtual: bool | None) -> Mapping[str, bytes]:
    """Return the files that the run directory contains for the batch script of `job`, as contents by name: the script,
    and the programs that it finds first on its PATH. Return none for a job without a batch script.

    `virtual` selects the programs of virtual nodes (True) or of a real cluster (False); None: both.
    """
    if job.batch_script is None:
        return {}
    found = {SCRIPT: job.batch_script.encode("utf-8", "surrogateescape")}
    if virtual is not True:
        found.update({_REAL + name: _read("real-" + name) for name in ("srun", "bash_env")})
    if virtual is not False:
        found.update({_SHIMS + name: _read(source) for source, names in _VIRTUAL.items() for name in names})
    return found


def write_files(job: Job, paths: RunPaths) -> None:
    """Write the batch script of `job` and its programs, which `files` returns, into the run directory as executable
    files. Raise OSError."""
    mode = 0o750 if job.share == "group" else 0o700
    for name, data in files(job, None).items():
        path = os.path.join(paths.root, name)
        os.makedirs(os.path.dirname(path), mode=mode, exist_ok=True)
        own = 0o700 if name == SCRIPT else mode  # other users find it in the code, unless the user leaves it out there
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, own), "wb") as file:
            file.write(data)


def _read(name: str) -> bytes:
    with open(source_file("wings", "batch_scripts", "shims", name), "rb") as file:
        return file.read()


def link_left_out_paths(job: Job, paths: RunPaths) -> list[str]:
    """Create symbolic links in the run's snapshot of the code for the paths that the batch script names and that the
    snapshot leaves out (environments, data, ignored files) to their originals. Return the linked paths. Raise OSError.
    """
    if job.code is None or not script_of_job(job).is_shell:
        return []
    from worldsize.wings.batch_scripts.script.shell_values import expanded_commands

    linked = []
    for seen in expanded_commands(script_of_job(job).text, {}):
        for word in seen.words:
            name = _left_out_path(word.rpartition("=")[2], job.code, paths.code)
            place = name and _directory_in_run(paths, os.path.dirname(name))
            if name and place:
                os.symlink(os.path.join(job.code, name), os.path.join(place, os.path.basename(name)))
                linked.append(name)
    return linked


def _left_out_path(word: str, code: str, snapshot: str) -> str | None:
    """Return the shortest leading part of the relative path `word` that exists in the directory `code` and not in its
    `snapshot`; None if there is none."""
    if word.startswith(("/", "~", "-")) or not word.isprintable():
        return None
    parts = [part for part in word.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or not os.path.exists(os.path.join(code, *parts)):
        return None
    for count in range(1, len(parts) + 1):
        name = os.path.join(*parts[:count])
        if not os.path.lexists(os.path.join(snapshot, name)):
            return name
    return None


def _directory_in_run(paths: RunPaths, directory: str) -> str | None:
    """Return the path of `directory`, a relative directory of the run's snapshot of the code; None if a link leads out
    of the run, where another user may exchange files."""
    from worldsize.trust.trees import path_within

    try:
        return path_within(paths.root, os.path.join(paths.code, directory))
    except (OSError, StorageError):
        return None
