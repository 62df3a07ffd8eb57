"""`srun` inside a batch script on virtual nodes: starts the tasks of a step on this machine, as the real srun would on
its nodes."""

from __future__ import annotations

import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count

from worldsize.common.atomic_files import write_json
from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import masked_variables, read_masked_plan
from worldsize.state.notices import Notice, append_rank_notice
from worldsize.trust.secrets import mask_argv, mask_values
from worldsize.wings.batch_scripts.agent.srun_options import (
    SrunError,
    SrunOptions,
    parse_srun_words,
    read_programs,
    task_argv,
)
from worldsize.wings.batch_scripts.agent.step import StepRun, print_as_srun
from worldsize.wings.batch_scripts.agent.step_records import StepRegistry, step_file
from worldsize.wings.batch_scripts.agent.step_size import Allocation, StepSize, step_size, task_node_indexes
from worldsize.wings.batch_scripts.agent.task_environment import Step, StepTask

_PAUSE = 0.05
_VERSION = "slurm 22.05.8 (worldsize, on virtual nodes)"


def srun(paths: RunPaths, words: Sequence[str]) -> int:
    """Run a step of a batch script on virtual nodes, as Slurm's srun does with the arguments `words`. Return the exit
    code of srun. Print the error of a refused srun on standard error."""
    try:
        asked = parse_srun_words(words, os.environ)
        if {"help", "usage", "version"} & set(asked.given):
            print(_VERSION)
            return 0
        return _run_step(paths, asked)
    except SrunError as refused:
        sys.stderr.write(refused.text + "\n")
        return refused.code


def _run_step(paths: RunPaths, asked: SrunOptions) -> int:
    plan = read_masked_plan(paths)
    assert plan.batch is not None
    umask = os.umask(plan.umask)  # the script's umask, which the tasks and their own files use
    allocation = Allocation(plan.batch.hosts, plan.batch.cpus)
    size = _size(asked, allocation)
    board = StepRegistry(paths)
    for name, text in asked.remarks.items():
        if board.claim_notice(name):
            _say(paths, text)
    hosts = tuple(allocation.hosts[node] for node in size.nodes)
    programs = read_programs(asked)
    started = time.time()
    number, tasks = _allocate_step(paths, plan, asked, size, allocation, board)
    step = Step(number, asked, size, hosts, tasks, umask)
    secrets = [os.environ[name] for name in (*plan.secrets, *masked_variables(plan)) if os.environ.get(name)]
    record = {
        "step": number,
        "command": mask_argv(mask_values(asked.program, secrets)),
        "hosts": list(hosts),
        "tasks": size.total,
        "ranks": [task.rank for task in tasks],
        "started": started,
    }
    _enter_directory(asked, hosts[0])
    argv = [task_argv(asked.program, programs, task.number) for task in tasks]
    run = StepRun(step, paths, allocation, plan.grace, argv)
    code = run.run()
    failure = run.failure._asdict() if run.failure else None
    write_json(
        step_file(paths, number),
        {**record, "ended": time.time(), "code": code, "failure": failure, "stopped": run.stopped},
    )
    return code


def _size(asked: SrunOptions, allocation: Allocation) -> StepSize:
    try:
        size = step_size(asked.given, os.environ, allocation)
    except ValueError as error:
        raise SrunError(f"srun: {error}") from None
    for warning in size.warnings:
        print_as_srun(warning)
    return size


def _say(paths: RunPaths, text: str) -> None:
    print_as_srun("worldsize: " + text)
    append_rank_notice(paths, Notice("batch-option", "srun: " + text))


def _allocate_step(
    paths: RunPaths, plan: Plan, asked: SrunOptions, size: StepSize, allocation: Allocation, board: StepRegistry
) -> tuple[int, tuple[StepTask, ...]]:
    """Allocate ranks and CPUs of the virtual nodes to a new step of the batch script. Return the step's number and its
    tasks, on ranks whose logs no other step writes if a node has enough of them. Wait, as srun does, for CPUs that
    other steps of the script hold."""
    shares = not asked.flag("overlap") and not asked.flag("overcommit") and not asked.flag("oversubscribe")
    per_task = parse_digits(asked.options.get("cpus-per-task")) or 1
    need = {node: tasks * per_task for node, tasks in zip(size.nodes, size.tasks)}
    if max(need.values()) > allocation.cpus and board.claim_notice("cpus"):
        what = "%d CPUs on a node of which the script asks for %d: clusters that share nodes refuse this"
        _say(paths, what % (max(need.values()), allocation.cpus))
    told = False
    while True:
        with board.lock():
            held = board.running_steps()
            used = {node: sum(each.cpus.get(str(node), 0) for each in held) for node in need}
            if not shares or all(not used[node] or used[node] + need[node] <= allocation.cpus for node in need):
                tasks = _tasks(plan, asked, size, allocation, {rank for each in held for rank in each.ranks})
                board.add_running([task.rank for task in tasks], need if shares else {})
                return board.create_step(), tasks
        if not told:
            print_as_srun(f"Job {_job_id()} step creation temporarily disabled, retrying (Requested nodes are busy)")
            told = True
        time.sleep(_PAUSE)


def _job_id() -> str:
    return os.environ.get("SLURM_JOB_ID", "0")


def _tasks(
    plan: Plan, asked: SrunOptions, size: StepSize, allocation: Allocation, taken: set[int]
) -> tuple[StepTask, ...]:
    found: list[StepTask] = []
    taken = set(taken)
    local_numbers: dict[int, Iterator[int]] = defaultdict(count)
    for number, place in enumerate(task_node_indexes(size, asked.options.get("distribution"))):
        node = size.nodes[place]
        local = next(local_numbers[place])
        ranks = [rank.rank for rank in plan.nodes[node].ranks]
        rank = next((rank for rank in ranks if rank not in taken), ranks[local % len(ranks)])
        taken.add(rank)
        found.append(StepTask(number, local, place, allocation.hosts[node], rank))
    return tuple(found)


def _enter_directory(asked: SrunOptions, host: str) -> None:
    directory = asked.options.get("chdir")
    if directory:
        try:
            os.chdir(directory)
        except OSError as error:
            # Real srun changes to /tmp, where any user may have created a program of the name that is executed next.
            what = "error: %s: worldsize: couldn't chdir to `%s': %s: staying in %s, where Slurm goes to /tmp"
            print_as_srun(what % (host, directory, error.strerror, os.getcwd()))
