"""The execution of a command, or a shell, on nodes of a running Slurm job, as a separate step next to the agents' step
(srun --overlap), or on nodes of a new job.

The behaviour of srun is known from Slurm's source (_copy_job_tres_to_step, SSF_OVERLAP_FORCE and _pick_step_nodes in
its step_mgr.c). Since 22.05, a step with --overlap also gets the job's CPUs, memory and GPUs that other steps have. In
20.11 and 21.08, it shares only CPUs and would wait for the GPUs, so there it requests none. --mem=0 counts none of the
job's memory. A step without --gres requests the GPUs that its job requested.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from worldsize.compute.base import Handle
from worldsize.compute.capabilities import NodeCommand, NodeCommandStream
from worldsize.compute.slurm.commands import clean_environ, run_slurm
from worldsize.compute.slurm.errors import slurm_error
from worldsize.compute.slurm.job_rows import format_option, values_of
from worldsize.compute.slurm.options import sbatch_options
from worldsize.compute.slurm.queue import SlurmRunner
from worldsize.compute.slurm.script_trust import TRUST_FUNCTIONS, trusted_paths
from worldsize.compute.slurm.states import state_of
from worldsize.errors import ConfigError, SubmitRejected, UsageError
from worldsize.plan.hostlist import expand_hostlist, fold_hostlist
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.setup_script import REPLACEABLE_EXIT_CODE
from worldsize.wings.node_commands.agent import run_command
from worldsize.wings.node_commands.by_process import (
    OutputRules,
    ProcessCommandStream,
    command_spec,
    program,
    with_command_spec,
)

_COLUMNS = ("jobid", "state", "nodelist")
_GPU_SHARING_VERSION = (22, 5)
_NAME = "worldsize-exec"
_SBATCH_ONLY_OPTIONS = frozenset(("requeue", "no-requeue", "signal", "dependency", "ntasks-per-node"))
_PASS_ON = re.compile(
    r"queued and waiting|has been allocated|Waiting for (job|nodes)|is pending|Granted", re.IGNORECASE
)
_IGNORE = re.compile(r"lacks support for cpu binding|task \d+: Exited with exit code \d+")
_FATAL = re.compile(r"\bCANCELLED AT\b|node failure|force terminated|job step aborted", re.IGNORECASE)
"""Lines after which srun itself may wait forever for the tasks of a node that died."""

_START_NODE_PROGRAM = "\n".join(
    (
        *TRUST_FUNCTIONS,
        f'PYTHON=$0 OWN=$2 TRUSTED=$3; usable "$4" || export {run_command.ELSEWHERE}=1',
        "program=$1; shift 4",
        f'require_usable "$@" || exit {REPLACEABLE_EXIT_CODE}',
        "has_python || PYTHON=python3",
        'choose_python "$@"',
        'exec "$PYTHON" -I -S -c "$program"',
    )
)
"""The shell script that starts the node program. It checks each path, because a path of the login node may be another
user's on another node."""

_STEP = ("--mem=0", "--cpu-bind=none", "--mpi=none", "--kill-on-bad-exit=0", "--wait=0", "--chdir=/", "--export=ALL")


class RunningJob(NamedTuple):
    """A running job: its plain number (which an element of an array has, too), and its nodes by Slurm's names."""

    job: str
    nodes: tuple[str, ...]


def execute(handle: Handle, command: NodeCommand, environ: Mapping[str, str]) -> NodeCommandStream:
    run = partial(run_slurm, environ=environ)
    place = find_running_job(handle["job"], run)
    numbers = numbers_of(place, command)
    argv = [*step_argv(place, list(numbers), _slurm_version(run)), *_node_program_argv(handle, command)]
    return _start(argv, _srun_environment(environ, command, numbers), environ)


def execute_on_own_nodes(
    command: NodeCommand, asked: Mapping[str, Any], python: str, environ: Mapping[str, str]
) -> NodeCommandStream:
    """Start a user's command on nodes of a new Slurm job, with the compute's options `asked`, and return the stream of
    its events. Raise ConfigError if there is no srun."""
    plan = Plan(
        run_id=_NAME,
        name=_NAME,
        compute="",
        created=0.0,
        attempt=0,
        nodes=node_major_layout(len(command.nodes), 1),
        argv=command.argv,
        environment={},
        grace=0.0,
        timeout=command.limit,
    )
    options = [option for option in sbatch_options(asked, plan) if option[0] not in _SBATCH_ONLY_OPTIONS]
    words = ["--{}".format(name if value is None else f"{name}={value}") for name, value in options]
    words += ["--nodelist=" + fold_hostlist(command.hosts.values())] if command.hosts else []
    argv = ["srun", *words, f"--ntasks={len(command.nodes)}", "--ntasks-per-node=1", *_STEP[1:]]
    return _start(
        [*argv, *_node_program_argv({"python": python}, command)],
        _srun_environment(environ, command),
        environ,
        leash=True,
    )


def execute_in_allocation(command: NodeCommand, job: str, python: str, environ: Mapping[str, str]) -> NodeCommandStream:
    """Start a user's command on the first nodes of the Slurm allocation `job` to which this shell belongs, and return
    the stream of its events. Raise UsageError if the allocation has too few nodes, or not all nodes that are named."""
    run = partial(run_slurm, environ=environ)
    place = find_running_job(job, run)
    if not set(place.nodes).issuperset(command.hosts.values()):
        what = f"not all nodes are in the allocation that this shell belongs to (job {job})"
        raise UsageError(what, "--all", f"use -w {len(place.nodes)} for the nodes that are")
    if len(command.nodes) > len(place.nodes):
        what = "%d nodes are asked for, and this allocation (job %s) has %d"
        raise UsageError(what % (len(command.nodes), job, len(place.nodes)), "-w", "ask for fewer")
    nodes = place.nodes[: len(command.nodes)]
    numbers = {name: number for number, name in enumerate(nodes)}
    argv = [*step_argv(place, nodes, _slurm_version(run)), *_node_program_argv({"python": python}, command)]
    return _start(argv, _srun_environment(environ, command, numbers), environ)


def open_shell(handle: Handle, command: NodeCommand, environ: Mapping[str, str]) -> int:
    """Open an interactive shell on a node of a run's Slurm job, wait for its end, and return its exit code. srun uses
    the terminal. Its own messages about the end of the shell are left out."""
    run = partial(run_slurm, environ=environ)
    place = find_running_job(handle["job"], run)
    numbers = numbers_of(place, command)
    argv = [*step_argv(place, list(numbers), _slurm_version(run)), "--pty", *_node_program_argv(handle, command)]
    signal.signal(signal.SIGINT, lambda *_: None)  # srun handles Ctrl-C until the shell has the terminal
    process = subprocess.Popen(argv, env=_srun_environment(environ, command, numbers), stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if not _IGNORE.search(line.decode(errors="replace")):
            os.write(2, line)
    code = process.wait()
    return code if code >= 0 else 128 - code


def find_running_job(job: str, run: SlurmRunner) -> RunningJob:
    """Return the running Slurm job with the id `job` and its nodes. Raise UsageError if it is not running, and
    SubmitAgain if Slurm does not answer."""
    try:
        text = run(["squeue", "--noheader", "--all", "--local", "--jobs=" + job, format_option(_COLUMNS)])
    except SubmitRejected as error:
        raise UsageError(f"Slurm no longer has job {job}: {error.what}", None, "has the run ended?") from None
    for row in values_of(text, _COLUMNS):
        if state_of(row["state"]).phase == "running":
            return RunningJob(row["jobid"], tuple(expand_hostlist(row["nodelist"])))
    raise UsageError(f"Slurm's job {job} does not run now", None, "see `worldsize status`")


def numbers_of(place: RunningJob, command: NodeCommand) -> dict[str, int]:
    """Return the numbers that the command's nodes have in the run, by Slurm's names of the nodes. If the run has only
    some nodes of its allocation, the names are those that its agents have reported. Raise UsageError if a name is not
    known yet."""
    nodes = command.plan.nodes if command.plan else ()
    found = {}
    for number in command.nodes:
        host = command.hosts.get(number, "")
        name = next((each for each in (host, host.partition(".")[0]) if each in place.nodes), None)
        if name is None and len(nodes) == len(place.nodes):
            name = place.nodes[number]
        if name is None:
            raise UsageError(f"node {number} has not reported its name yet", None, "try again in a moment")
        found[name] = number
    return found


def step_argv(place: RunningJob, nodes: Sequence[str], version: tuple[int, int]) -> list[str]:
    """Return the command line of srun with its options for a step of the job with one task on each of `nodes`, which
    does not wait for resources that the run holds. `version` is that of Slurm."""
    count = len(nodes)
    return [
        "srun",
        "--jobid=" + place.job,
        "--overlap",
        "--nodelist=" + fold_hostlist(nodes),
        f"--nodes={count}",
        f"--ntasks={count}",
        "--ntasks-per-node=1",
        *_STEP,
        *(["--gres=none"] if version < _GPU_SHARING_VERSION else []),
    ]


def _node_program_argv(handle: Handle, command: NodeCommand) -> list[str]:
    """Return the command line that srun starts on each node for a user's command: the node program, run by the agents'
    Python, after a check of its paths."""
    python = handle.get("python") or "python3"
    cwd = command.cwd if command.plan is None else os.sep
    seen = trusted_paths([*([python] if os.sep in python else []), *command.named, cwd])
    return ["sh", "-c", _START_NODE_PROGRAM, python, program(), str(os.geteuid()), seen, cwd, *command.named]


def _srun_environment(
    environ: Mapping[str, str], command: NodeCommand, numbers: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Return srun's environment, which its tasks inherit, with the order for the node program."""
    variable = "SLURM_NODEID" if numbers is None else "SLURMD_NODENAME"
    return with_command_spec(clean_environ(environ, "sbatch"), command_spec(command, variable, numbers))


def _slurm_version(run: SlurmRunner) -> tuple[int, int]:
    """Return the version (major, minor) of the local Slurm programs, which is close to the cluster's. If it is not
    known, return one that shares GPUs."""
    match = re.search(r"(\d+)\.(\d+)", run(["srun", "--version"]))
    return (int(match[1]), int(match[2])) if match else _GPU_SHARING_VERSION


def _start(
    argv: Sequence[str], ordered: Mapping[str, str], environ: Mapping[str, str], leash: bool = False
) -> NodeCommandStream:
    """Start srun with the command line `argv` and the environment `ordered`, and return the stream of the command's
    events. With `leash`, srun gets TERM when this process is killed. Raise ConfigError if there is no srun."""
    rules = OutputRules(lambda text: slurm_error("srun", text, environ), _PASS_ON, _IGNORE, _FATAL, leash)
    try:
        return ProcessCommandStream(argv, ordered, rules)
    except FileNotFoundError:
        hint = "log in to the cluster first, or load its module (often `module load slurm`)"
        raise ConfigError("Slurm's srun is not found on PATH", "srun", hint) from None
