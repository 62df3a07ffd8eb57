"""The stacks of one node's ranks, for a person who requests them while the ranks run (`worldsize stacks`): once, or
twice some seconds apart.

The program is executed on the ranks' node as a command (`NodeCommand`), in which the run's directory and the node's
number are variables.

Standard library only: travels inside agent.pyz (Python >= 3.8).

    `python -I -S -c PROGRAM ATTEMPT LOOKS GAP`       for each process in each look a line: "NUMBER STACKS"

NUMBER counts the looks from 1. STACKS is a `stacks_line`. GAP is the number of seconds between two looks.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_file, read_if_possible
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.trust.owners import is_own_process
from worldsize.wings.hangs.agent.rank_pythons import (
    is_launcher,
    is_python,
    parent_of,
    rank_of,
    rank_processes,
    state_of,
)
from worldsize.wings.hangs.agent.stack_collector import collect_stacks
from worldsize.wings.hangs.judgement.stacks.rank_stacks import stacks_line

PROGRAM = """\
import os, sys
sys.path.insert(0, os.path.join(os.environ["WORLDSIZE_RUN_DIR"], "agent.pyz"))
try:
    from worldsize.wings.hangs.agent.node_stacks import main
except ImportError:
    sys.exit("the run was started by a release of worldsize that has no `stacks`")
main(sys.argv[1:])
"""


def node_roots(run_id: str, ranks: Collection[int], events: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """Return a mapping of rank to the ID of the process that was started for that rank of the run on this node, if one
    is alive. It is the process that the node's agent has recorded in `events`. If others have started the ranks
    (mpirun, a batch script's srun), it is the outermost of this user's processes whose environment names this rank of
    the run."""
    told = {rank: pid for rank, pid in started_processes(events, ranks).items() if _may_be_of(pid, run_id)}
    found = {each.rank for each in rank_processes(told)}
    roots = {rank: pid for rank, pid in told.items() if rank in found}
    missing = set(ranks) - found
    return {**roots, **_search(run_id, missing)} if missing else roots


def started_processes(events: Iterable[Mapping[str, Any]], ranks: Iterable[int]) -> dict[int, int]:
    """Return a mapping of each rank in `ranks` to the ID of the process that the agent has started for it, according to
    the recorded `events`. Ranks of one launcher share a process, which the events list under the first of these ranks.
    """
    known: dict[int, int] = {}
    for event in events:
        pids = event.get("pids") if event.get("event") == "ranks_started" else None
        for name, pid in pids.items() if isinstance(pids, dict) else ():
            rank = parse_digits(name)
            if rank is not None and type(pid) is int and pid > 1:
                known[rank] = pid
    firsts = {rank: max((each for each in known if each <= rank), default=None) for rank in ranks}
    return {rank: known[first] for rank, first in firsts.items() if first is not None}


def _may_be_of(pid: int, run_id: str) -> bool:
    """Return whether the process `pid`, which was recorded earlier, can still belong to the run: another process may
    have this ID by now."""
    try:
        if not is_own_process(pid):
            return False
    except OSError:
        return False
    if state_of(pid) == "D":  # reading its memory may wait, too
        return True
    environ = read_if_possible(f"/proc/{pid}/environ")
    return not environ or b"WORLDSIZE_RUN_ID=" + os.fsencode(run_id) in environ.split(b"\0")


def _search(run_id: str, ranks: Collection[int]) -> dict[int, int]:
    """Return a mapping of each rank in `ranks` to the outermost process of this user whose environment names the run
    and that rank. If there are several, return that of the latest Slurm step. Ranks without a process are missing."""
    found: dict[int, list[int]] = {}
    own = {os.getpid(), os.getppid()}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid not in own and _is_of(pid, run_id) and not is_launcher(pid):
            rank = rank_of(pid)
            if rank is not None and rank in ranks:
                found.setdefault(rank, []).append(pid)
    return {rank: max(_outermost(pids), key=_likeness) for rank, pids in found.items()}


def _is_of(pid: int, run_id: str) -> bool:
    try:
        if not is_own_process(pid) or state_of(pid) == "D":
            return False
    except OSError:
        return False
    return processes.variable(pid, "WORLDSIZE_RUN_ID") == run_id


def _outermost(pids: Collection[int]) -> list[int]:
    return [pid for pid in pids if parent_of(pid) not in pids] or list(pids)


def _likeness(pid: int) -> tuple[bool, int, bool, int]:
    """Return the key that orders processes by how much they resemble a rank of the run; greater is more. A batch script
    itself has Slurm's variables, but no step."""
    step = parse_digits(processes.variable(pid, "SLURM_STEP_ID"))
    ours = processes.variable(pid, "WORLDSIZE_RANK") != ""
    return ours, -1 if step is None else step, any(map(is_python, processes.trees([pid]))), -pid


def main(words: Sequence[str]) -> None:
    """Take the stacks of the node's ranks as the words of the command line (attempt, looks, gap) state, and print a
    line for each process and look. Exit with a sentence on stderr, and code 1, if that is not possible."""
    try:
        node, root = int(os.environ["WORLDSIZE_NODE_RANK"]), os.environ["WORLDSIZE_RUN_DIR"]
        attempt, looks, gap = int(words[0]), int(words[1]), float(words[2])
        paths = RunPaths(root, attempt)
        plan = Plan.from_json(read_file(paths.plan).decode())
        ranks = [each.rank for each in plan.nodes[node].ranks]
        is_agents = plan.batch is None or bool(plan.batch.hosts)  # a cluster's own srun starts no children of a script
    except (OSError, *PARSE_ERRORS) as error:
        sys.exit(f"its stacks are not taken: {error}")
    for number in range(1, looks + 1):
        if number > 1:
            time.sleep(gap)
        roots = node_roots(plan.run_id, ranks, read_events(paths, node) if is_agents else ())
        for stacks in collect_stacks(roots, paths.stacks_dir):
            sys.stdout.write(f"{number} {stacks_line(stacks)}\n")
            sys.stdout.flush()
