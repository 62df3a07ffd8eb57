"""The end of a local run: it writes an exit record for every node and the result, and leaves no process running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Container, Mapping, Sequence
from functools import partial

from worldsize.agent.outcome.node_record import DISK_FULL_ERRORS, write_or_note
from worldsize.agent.outcome.verdict import AGENT_LOST, CANCEL, Verdict, failure_verdict, lost_node_verdict
from worldsize.agent.posix import processes
from worldsize.common.atomic_files import write_bytes, write_json
from worldsize.common.json_values import tuple_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import write_result
from worldsize.state.exit_records import read_events, read_exits, signal_name
from worldsize.state.records import ExitRecord, Observation, Reason
from worldsize.state.result import result
from worldsize.state.run_state import AttemptFacts, fold

_RESULT_BYTES = 8192
_LONGEST_PAUSE = 0.1


class ResultWriter:
    """Writer of a run's result. It is created when the run starts, and reserves disk space for the result, so that a
    run that fills the disk can still report it."""

    def __init__(self, plan: Plan, paths: RunPaths) -> None:
        self.plan = plan
        self.paths = paths
        self.started = time.time()
        self._spare = paths.result + ".spare"
        write_or_note(partial(write_bytes, self._spare, b"\n" * _RESULT_BYTES), "no room for the result")

    def write(self, lost: Mapping[int, Verdict]) -> int:
        """Write an exit record for every node that left none, and the run's result, computed from the exit records of
        all nodes. `lost` maps the rank of a node that left no record to the verdict on it. Return the run's exit code.
        """
        facts = AttemptFacts(
            len(self.plan.agents),
            prepared=True,
            submitted=True,
            rejected=None,
            cancelled=os.path.exists(self.paths.cancel),
            launched=True,
            exits=self._all_exits(lost),
            observation=Observation("ended"),
            settled=True,
        )
        status = fold(facts)
        write_or_note(partial(write_result, self.paths, result(self.plan, status), self._spare), "no result written")
        return status.exit_code or 0

    def _all_exits(self, lost: Mapping[int, Verdict]) -> tuple[ExitRecord, ...]:
        exits = {record.node_rank: record for record in read_exits(self.paths, len(self.plan.agents))}
        for node in self.plan.agents:
            node_rank = node.node_rank
            if node_rank not in exits:
                why = lost.get(node_rank) or agent_lost_verdict(node_rank, 1, False)
                exits[node_rank] = write_stand_in_record(self.plan, self.paths, node_rank, why, self.started)
        return tuple(exits[node_rank] for node_rank in sorted(exits))


def write_stand_in_record(plan: Plan, paths: RunPaths, node_rank: int, why: Verdict, started: float) -> ExitRecord:
    """Write and return the exit record of a node whose agent could not write its own. `why` is the reason for its end.
    If the agent has recorded an event with the reason for which it was stopping, that reason takes precedence over
    `why`."""
    host, now = processes.host_name(), time.time()
    why = _verdict_of_events(paths, node_rank) or why
    record = ExitRecord(node_rank, host, plan.attempt, started, now, (), why.why, why.failure, why.code)
    write = partial(write_json, paths.exit_record(node_rank), record.to_json())
    write_or_note(write, f"no exit record for node {node_rank}")
    return record


def _verdict_of_events(paths: RunPaths, node_rank: int) -> Verdict | None:
    """Return the last verdict that the agent of node `node_rank` recorded in its events when it was stopping; None if
    it recorded none, or if its events cannot be read."""
    try:
        found = [
            tuple_of(Verdict, event) for event in read_events(paths, node_rank) if event.get("event") == "stopping"
        ]
    except (TypeError, ValueError):
        return None
    return found[-1] if found else None


def agent_lost_verdict(node_rank: int, code: int, cancelled: bool, silent: bool = False, host: str = "") -> Verdict:
    """Return the verdict on a node whose agent ended without a record. If the run was cancelled, the verdict is the
    cancel, because the agent had to be killed for it.

    `silent` means that this process killed the agent, since it no longer responded. `host` is the machine's name, if it
    is not this machine.
    """
    if cancelled:
        return Verdict(CANCEL, None)
    name = signal_name(code)
    how = f"was killed by signal {code - 128} ({name})" if name else "failed (see logs/conductor.log)"
    if silent:
        how = "made no progress (stopped or hung) and was terminated"
    return lost_node_verdict(AGENT_LOST, node_rank, "its agent " + how, host, code or 1)


def no_head_verdict(error: Exception) -> Verdict:
    """Return the verdict on a run of which no agent was started because of `error`: a failure for the reason STORAGE if
    a disk is full, else RENDEZVOUS."""
    full = isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS
    reason = Reason.STORAGE if full else Reason.RENDEZVOUS
    return failure_verdict(AGENT_LOST, reason, f"the run could not be started: {error}", 0)


def end_orphans(agents: Container[int]) -> None:
    """Kill the processes that agents which ended without a record have left to this process, with their process groups:
    the children of this process, except for the pids `agents`. No agent supervises them."""
    for pid in processes.children():
        if pid not in agents:
            processes.signal_group(pid, signal.SIGKILL)
            processes.signal_process(pid, signal.SIGKILL)


def kill_descendants(spared: Sequence[int] = ()) -> None:
    """Kill all descendants of this process, which lost agents left behind, until none is left: nothing of a run
    outlives its conductor, except for the processes `spared` and their descendants."""
    pause = 0.001
    while True:
        for _ in processes.reap():
            pass
        left = processes.descendants()
        if spared:
            left = list(set(left).difference(processes.trees(spared)))
        if not left:
            return
        for pid in left:
            processes.signal_process(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
