"""Checks of a run on a login node before it is submitted.

They include the limits of the partitions that a job may use. Unless the cluster sets EnforcePartLimits, Slurm accepts a
job that exceeds them, and the job stays in the queue forever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.compute.base import CheckResult
from worldsize.compute.slurm.cluster import PartitionRow, nodes, partitions
from worldsize.compute.slurm.commands import call
from worldsize.compute.slurm.job_rows import span
from worldsize.compute.slurm.options import Option, directive
from worldsize.compute.slurm.queue import SlurmRunner
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError
from worldsize.plan.hostlist import fold_hostlist
from worldsize.plan.plan import Plan
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.plan.time_limit import known_limit_seconds
from worldsize.trust.directories import is_node_local
from worldsize.trust.secrets import mask_text, mask_values

_LOCAL_TYPES = ("tmpfs", "ramfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "overlay", "zfs", "f2fs")
_DEFAULT_KILL_WAIT = 30.0
_NO_NODES = "requested node configuration is not available"
_KEYS = (
    ("account", "slurm.account"),
    ("qos", "slurm.qos"),
    ("partition", "slurm.partition"),
    ("time", "slurm.time"),
    ("reservation", "slurm.reservation"),
    ("feature", "slurm.constraint"),
    ("generic resource", "slurm.gpus_per_node"),
    ("memory", "slurm.mem"),
    ("node name", "slurm.nodelist"),
    ("dependency", "slurm.dependency"),
    ("node count", "resources.instance_count"),
)
"""Words of Slurm's refusals, each with the key that it is about. The first word that is found decides."""

_OPTION = r"option '?--([a-z][a-z0-9_-]*)"


def check_directories(runs_dir: str, inputs: Mapping[str, str]) -> Iterator[CheckResult]:
    """Check whether the Slurm nodes can see `runs_dir` and the `inputs` (path by input name), and yield a CheckResult
    for each problem: an error for a path that only this machine sees, and a notice if `runs_dir` is on a local file
    system."""
    real = os.path.realpath(runs_dir)
    if is_node_local(runs_dir):
        hint = "set runs_dir of the compute (worldsize.toml), or WORLDSIZE_HOME, to a shared directory"
        what = f"{runs_dir} is local to this machine: no node would see the run"
        yield CheckResult("error", what, "runs_dir", hint, local=True)
    elif _file_system_type(real) in _LOCAL_TYPES:
        what = (
            f"{runs_dir} is on a local file system ({_file_system_type(real)}): the nodes must see it under this path"
        )
        yield CheckResult("notice", what, "runs_dir", id="run-location")
    for name, path in inputs.items():
        if is_node_local(path):
            yield CheckResult("error", f"{path} is local to this machine: no node would see it", f"inputs.{name}.path")


def check_python(python: str) -> Iterator[CheckResult]:
    if os.sep not in python:
        return
    if not os.access(python, os.X_OK):
        yield CheckResult("error", f"no such interpreter: {python}", "python", "correct `python` of the compute")
    elif is_node_local(python) or is_node_local(os.path.dirname(python)):
        what = f"{python} is in a directory that each machine has for itself: a node without it starts no rank"
        yield CheckResult(
            "notice", what, "python", "name one that the nodes see: `python` of the compute", id="node-python"
        )


def check_slurm(
    options: Sequence[Option], gpus: int | None, environ: Mapping[str, str], run: SlurmRunner
) -> Iterator[CheckResult]:
    """Check the sbatch `options` of a job with Slurm itself (`sbatch --test-only`) and against the limits of its
    partition, and yield a CheckResult for each problem. `gpus` is the number of GPUs per node. If Slurm does not
    answer, the only result is a notice that nothing was checked."""
    lines = list(map(directive, options))
    try:
        answer = call(
            ["sbatch", "--test-only"], environ=environ, input="\n".join(["#!/bin/bash", *lines, "exit 0", ""])
        )
    except SubmitAgain as error:
        yield CheckResult("notice", f"not checked by Slurm: {error.what}", id="not-checked")
        return
    said = None
    if answer.code != 0:
        from worldsize.compute.slurm.errors import slurm_error  # its tables are needed only if Slurm refuses

        said = slurm_error("sbatch", answer.err, environ)
    if isinstance(said, SubmitAgain):
        yield CheckResult("notice", f"not checked by Slurm: {said.what}", id="not-checked")
        return
    rows = _read_candidates(options, run)
    found = partition_problems(options, gpus, rows)
    yield from found
    if said is None or any(result.level == "error" for result in found):
        return
    away = _unavailable_nodes(rows, run) if _NO_NODES in said.what.lower() else ""
    if away:
        what = "none of the nodes that could take it is up now (%s): it would wait for them"
        yield CheckResult("notice", what % away, "slurm", id="not-checked")
    else:
        local = isinstance(said, ConfigError)
        what = said.what if local else f"Slurm would refuse it: {said.what}"
        yield CheckResult("error", what, None if local else _key_of(said.what), said.hint, local)


def check_pmix(run: SlurmRunner) -> Iterator[CheckResult]:
    """Yield a CheckResult of level "error" if this Slurm's srun has no PMIx plug-in and so cannot start MPI ranks.
    Yield nothing if srun fails."""
    try:
        said = run(["srun", "--mpi=list"])
    except WorldsizeError:
        return
    if "pmix" not in said.split():
        what = "this Slurm has no PMIx plug-in (srun --mpi=list), so launcher: srun cannot start MPI ranks"
        yield CheckResult("error", what, "distribution.launcher", "launcher: mpirun needs none")


def _read_candidates(options: Sequence[Option], run: SlurmRunner) -> list[PartitionRow]:
    """Return the partitions, as a list of PartitionRow, in which a job with these sbatch `options` may run: those that
    it names, else the default one. Empty if sinfo fails."""
    try:
        return candidate_partitions(options, partitions(run))
    except WorldsizeError:
        return []


def _unavailable_nodes(rows: Sequence[PartitionRow], run: SlurmRunner) -> str:
    """Return the names of those nodes of the partitions `rows` that are down, drained or reserved, as a folded host
    list; "" if sinfo fails. `sbatch --test-only` ignores such nodes, and so rejects a job that only has to wait for
    them."""
    names = {row.name for row in rows}
    try:
        return fold_hostlist(node.name for node in nodes(run) if not node.usable and names.intersection(node.groups))
    except WorldsizeError:
        return ""


def _key_of(what: str) -> str:
    """Return the key of the job file ("slurm.partition", …) that `what`, Slurm's text for refusing a job, is about;
    "slurm" if no more exact key is found."""
    option = re.search(_OPTION, what)
    if option:
        return "slurm.sbatch_options." + option[1]
    return next((key for word, key in _KEYS if word in what.lower()), "slurm")


def check_grace(grace: float, run: SlurmRunner) -> Iterator[CheckResult]:
    """Yield a notice (CheckResult) if `grace`, the seconds that a cancelled run has to end, is not shorter than the
    cluster's KillWait, after which Slurm itself sends KILL."""
    if grace < _DEFAULT_KILL_WAIT:
        return
    for line in run(["scontrol", "show", "config"]).splitlines():
        name, _, value = line.partition("=")
        if name.strip() == "KillWait":
            seconds = float(value.split()[0])
            if grace >= seconds:
                what = f"Slurm's KillWait ends a cancelled run after {seconds:g} s, before its grace of {grace:g} s"
                yield CheckResult("notice", what, "grace", id="slurm")


def check_secrets(plan: Plan, options: Sequence[Option]) -> Iterator[CheckResult]:
    """Yield a notice (CheckResult) for each sbatch option that contains a secret of the plan, and one if a line of the
    plan's setup does. Both are part of the batch script, which slurmctld keeps and operators can read."""
    secrets = plan_secret_values(plan)
    for name, value in options:
        if value and mask_text(mask_values(value, secrets)) != value:
            what = f"the option {name} holds a secret: it becomes part of the batch script, which Slurm stores"
            yield CheckResult("notice", what, "slurm", "remove it there", id="secret-shown")
    if any(mask_text(mask_values(line, secrets)) != line for line in plan.setup):
        what = "a line of setup holds a secret: it becomes part of the batch script, which Slurm stores"
        yield CheckResult(
            "notice", what, "setup", "let the line read it from a file of yours: $(cat FILE)", id="secret-shown"
        )


def check_programs(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    for program in ("sbatch", "squeue", "scancel"):
        try:
            find_program(program, environ)
        except OSError:
            hint = "log in to a login node of the cluster, or load its slurm module"
            yield CheckResult(
                "error",
                f"{program} is not on the PATH: this is not a login node of a Slurm cluster",
                None,
                hint,
                local=True,
            )
            return


def _file_system_type(path: str) -> str:
    """Return the type of the file system that holds `path`, or its nearest parent that exists; "" if the mount table
    cannot be read."""
    try:
        with open("/proc/self/mounts") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    holding = [(len(mount), kind) for mount, kind in mounts if mount == "/" or f"{path}/".startswith(mount + "/")]
    return max(holding, default=(0, ""))[1]


def candidate_partitions(options: Sequence[Option], rows: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Return those of the partitions `rows` that the sbatch option `partition` names, or the default partition if the
    option is not set."""
    wanted = dict(options).get("partition")
    return [row for row in rows if (row.name in wanted.split(",") if wanted else row.default)]


def partition_problems(options: Sequence[Option], gpus: int | None, rows: Sequence[PartitionRow]) -> list[CheckResult]:
    """Compare the sbatch `options` and the GPUs per node, `gpus`, of a job with the limits of the partitions `rows`,
    and return the problems with the partition that fits best, as a list of CheckResult. Empty if one partition accepts
    the job, or if `rows` is empty.

    A QOS may lift limits of time and nodes, so exceeding them is only a notice if the job names a QOS.
    """
    return min((list(_problems_with(dict(options), gpus, row)) for row in rows), key=len, default=[])


def _problems_with(said: Mapping[str, str | None], gpus: int | None, row: PartitionRow) -> Iterator[CheckResult]:
    level, unless = ("notice", "") if "qos" in said else ("error", ", or name the slurm.qos that allows it")
    nodes, limit = _least_node_count(said.get("nodes") or "1"), known_limit_seconds(said.get("time"))
    if nodes > row.nodes:
        what = f"{nodes} nodes are asked for, and partition {row.name} has {row.nodes}"
        yield CheckResult("error", what, "resources.instance_count", "`worldsize nodes` lists them")
    elif row.max_nodes is not None and nodes > row.max_nodes:
        what = f"{nodes} nodes are asked for, and partition {row.name} gives one job {row.max_nodes}"
        yield CheckResult(level, what, "resources.instance_count", f"ask for fewer{unless}", id="slurm")
    if gpus and gpus > row.gpus_per_node:
        what = f"{gpus} GPUs per node are asked for, and nodes of partition {row.name} have {row.gpus_per_node}"
        yield CheckResult("error", what, "slurm.gpus_per_node", "`worldsize nodes` lists them")
    if limit is not None and row.max_time is not None and limit > row.max_time:
        what = f"a time limit of {span(limit)} is longer than partition {row.name} allows ({span(row.max_time)})"
        yield CheckResult(level, what, "slurm.time", f"shorten it{unless}", id="slurm")


def _least_node_count(nodes: str) -> int:
    """Return the minimum number of nodes in `nodes`, the value of sbatch's --nodes: 2 for `2` and for `2-4`, which a
    user's own script may contain; 1 if it begins with no number."""
    found = re.match(r"[0-9]{1,15}", nodes)
    return int(found[0]) if found else 1
