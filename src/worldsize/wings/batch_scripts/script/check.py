"""Checks of how a batch script starts its ranks against its allocation. They report mismatches before a process waits
for ranks that never start. Pure.

Only bash can execute a script, so nothing is refused. If a value is not certain, nothing is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from worldsize.common.numbers import parse_digits
from worldsize.wings.batch_scripts.agent.step_size import Allocation
from worldsize.wings.batch_scripts.script.launches import Launch, Torchrun, find_launches, torchrun_of
from worldsize.wings.batch_scripts.script.parse import BatchScript, Remark
from worldsize.wings.batch_scripts.script.shell_values import ShellVariable
from worldsize.wings.batch_scripts.script.size import AllocationRequest
from worldsize.wings.batch_scripts.script.variables import ONLY_IF_REQUESTED, allocation_variables

_OF_RANKS = {
    "RANK": "SLURM_PROCID",
    "LOCAL_RANK": "SLURM_LOCALID",
    "NODE_RANK": "SLURM_NODEID",
    "GROUP_RANK": "SLURM_NODEID",
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def script_launches(script: BatchScript, asked: AllocationRequest) -> list[Launch]:
    if not script.is_shell:
        return []
    allocation = Allocation(tuple(f"node{index}" for index in range(asked.nodes)), asked.cpus)
    unsaid = dict.fromkeys(ONLY_IF_REQUESTED, "")
    return find_launches(script.text, {**unsaid, **allocation_variables(script, asked)}, allocation)


def check_script(script: BatchScript, asked: AllocationRequest, share_gpus: bool = False) -> list[Remark]:
    """Return remarks on the commands of a batch script that do not fit its allocation `asked`, such as a torchrun that
    waits for more nodes. Each remark is returned once, in the order of the lines. `share_gpus` is whether several
    processes may share a GPU."""
    found = script_launches(script, asked)
    if share_gpus:
        asked = asked._replace(gpus=None)
    findings = [finding for launch in found if launch.certain for finding in _check(launch, asked)]
    findings += _check_world([launch for launch in found if launch.may_train])
    findings += _idle_tasks(script, found, asked)
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.line)


def max_tasks_per_node(found: Sequence[Launch], asked: AllocationRequest) -> int:
    """Return the maximum number of tasks that run on a node at the same time, as far as the batch script's launches
    `found` and its allocation `asked` show it. This is the number of ranks of a node that get logs."""
    wanted = [-(-launch.tasks // launch.nodes) for launch in found if launch.tasks and launch.nodes]
    return max([*asked.tasks, *wanted])


def _check(launch: Launch, asked: AllocationRequest) -> Iterator[Remark]:
    if launch.refusal:
        yield Remark(launch.line, f"srun refuses this: {launch.refusal.removeprefix('error: ')}")
        return
    torchrun = torchrun_of(launch)
    if torchrun is not None:
        yield from _check_torchrun(launch, torchrun, asked)
    elif launch.by == "srun" and launch.may_train:
        yield from _check_ranks(launch)
    elif launch.by == "mpirun" and launch.tasks and launch.tasks > sum(asked.tasks):
        what = f"mpirun -np {launch.tasks}, but the allocation has {sum(asked.tasks)} tasks"
        yield Remark(launch.line, what, "leave -np out, or write -np $SLURM_NTASKS")
    yield from _check_address(launch, torchrun)


def _exported_constant(launch: Launch, name: str) -> ShellVariable | None:
    """Return the shell variable `name` that a command of a batch script finds, if the script itself exports it and its
    value is known; otherwise None."""
    found = launch.variables.get(name)
    return found if found and found.exported and found.line and found.value is not None else None


def _check_world(found: Sequence[Launch]) -> Iterator[Remark]:
    """Yield a remark for each value of WORLD_SIZE that the batch script exports, if none of the launches `found` that
    see it starts that number of processes."""
    seen: dict[ShellVariable, list[Launch]] = {}
    for launch in found:
        variable = _exported_constant(launch, "WORLD_SIZE")
        if variable is not None:
            seen.setdefault(variable, []).append(launch)
    for variable, those in seen.items():
        worlds = [_world_size(launch) for launch in those]
        certain = all(launch.certain for launch in those) and None not in worlds
        if not certain or variable.value in [str(world) for world in worlds]:
            continue
        first = those[0]
        what = "WORLD_SIZE is %s, but line %d starts %s"
        started = "one process" if worlds[0] == 1 else f"{worlds[0]} processes"
        hint = "export WORLD_SIZE=$SLURM_NTASKS" if first.by == "srun" else "put srun before it"
        if torchrun_of(first):
            hint = "leave it out: torchrun sets it"
        yield Remark(variable.line, what % (variable.value or "empty", first.line, started), hint)


def _world_size(launch: Launch) -> int | None:
    torchrun = torchrun_of(launch)
    if torchrun is None:
        return launch.tasks
    return torchrun.nnodes * torchrun.per_node if torchrun.nnodes and torchrun.per_node else None


def _check_ranks(launch: Launch) -> Iterator[Remark]:
    for name, source in _OF_RANKS.items():
        variable = _exported_constant(launch, name)
        ranks = launch.nodes if source == "SLURM_NODEID" else launch.tasks
        if variable is None or ranks is None or ranks < 2:
            continue
        what = "%s is %s for all %d tasks of line %d: the batch script sets it once, before srun starts them"
        hint = f"set it in the task: srun bash -c 'export {name}=${source}; exec …'"
        yield Remark(variable.line, what % (name, variable.value or "empty", launch.tasks, launch.line), hint)


def _check_address(launch: Launch, torchrun: Torchrun | None) -> Iterator[Remark]:
    address = _exported_constant(launch, "MASTER_ADDR") if launch.may_train else None
    if address is None or address.value not in _LOOPBACK or (torchrun and torchrun.standalone):
        return
    if launch.by == "srun" and launch.nodes is not None and launch.nodes > 1:
        what = "MASTER_ADDR is %s, but line %d starts tasks on %d nodes: each would wait for itself"
        hint = 'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
        yield Remark(address.line, what % (address.value, launch.line, launch.nodes), hint)


def _check_torchrun(launch: Launch, torchrun: Torchrun, asked: AllocationRequest) -> Iterator[Remark]:
    line, starts, nnodes = launch.line, launch.tasks, torchrun.nnodes
    if starts is not None and nnodes is not None and starts != nnodes:
        yield Remark(line, *_wrong_starts(launch, nnodes, starts, asked))
    if torchrun.per_node and asked.gpus and torchrun.per_node > asked.gpus:
        what = "torchrun starts %d processes on a node, but each node has %d GPU%s"
        hint = f"--nproc_per_node={asked.gpus}, or share them: --set share_gpus=true"
        yield Remark(line, what % (torchrun.per_node, asked.gpus, "" if asked.gpus == 1 else "s"), hint)
    same = parse_digits(torchrun.node_rank) is not None and torchrun.backend in (None, "static")
    if launch.by == "srun" and same and launch.nodes is not None and launch.nodes > 1:
        what = f"every node's torchrun gets --node_rank={torchrun.node_rank}: the batch script expands it once"
        hint = "srun bash -c 'torchrun --node_rank=$SLURM_NODEID …', or --rdzv_backend=c10d, which needs none"
        yield Remark(line, what, hint)


def _wrong_starts(launch: Launch, nnodes: int, starts: int, asked: AllocationRequest) -> tuple[str, str]:
    times = "once" if starts == 1 else f"{starts} times"
    if launch.by != "srun":
        return f"torchrun waits for {nnodes} nodes, but runs on the first one alone", "put srun before it"
    if nnodes == asked.nodes:
        what = "torchrun waits for {} node{}, but srun starts it {}".format(nnodes, "" if nnodes == 1 else "s", times)
        return what, "one torchrun per node: #SBATCH --ntasks-per-node=1"
    what = f"torchrun --nnodes={nnodes}, but srun starts it {times}, on {launch.nodes} node(s)"
    return what, "write --nnodes=$SLURM_NNODES"


def _idle_tasks(script: BatchScript, found: Sequence[Launch], asked: AllocationRequest) -> Iterator[Remark]:
    """Yield a remark if the allocation `asked` of a batch script has several tasks and nothing in the script starts
    more than one process."""
    tasks = sum(asked.tasks)
    alone = [launch for launch in found if not launch.by and os.path.basename(launch.program[0]).startswith("python")]
    others = any(word in script.text for word in ("srun", "mpirun", "mpiexec", "torchrun", "torch.distributed", "ssh"))
    if tasks > 1 and alone and not others:
        what = f"starts one process on the first node; the allocation is for {tasks} tasks"
        yield Remark(alone[0].line, what, "put srun before it, and every task starts one")
