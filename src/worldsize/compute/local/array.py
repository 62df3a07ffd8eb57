"""Runs of this machine that do not start at once: elements of an array, and runs that wait for other runs.

Their native id is the queue that will start them. Once it has started a run, the run has the native id of its own
conductor.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence

from worldsize.agent.posix import processes
from worldsize.compute.base import Handle, Submission
from worldsize.compute.local.leftovers import is_alive, may_be_signalled, remember_child
from worldsize.plan.array import read_after
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation
from worldsize.trust.procfs import withheld_variables, without_variables


def start_queue(submissions: Sequence[Submission], environ: Mapping[str, str], fork: bool) -> list[Handle]:
    from worldsize.agent.local.run_queue import fork_queue, spawn_queue

    first = submissions[0]
    root = os.path.dirname(first.paths.root) if first.plan.array else first.paths.root
    environ = without_variables(environ, withheld_variables(first.plan.secrets, environ))
    pid = (
        fork_queue(first.paths.agent, root, first.plan.umask, environ)
        if fork
        else spawn_queue(first.paths.agent, root, environ)
    )
    remember_child(pid)
    queue = {**processes.local_handle(pid, "", root), "queue": root}
    return [{**queue, "run_id": each.plan.run_id, "run_dir": each.paths.root} for each in submissions]


def observe_queued(handle: Handle, said: dict[str, str]) -> Observation:
    """Return the observation of a run in this machine's queue that had not been started when its handle was read:
    "queued", "absent" if the queue's process has ended, or "unknown" on another machine. `said` caches the message for
    each queue."""
    if handle["host"] != processes.host_name():
        return Observation("unknown", message=f"it waits on {handle['host']}")
    if not is_alive(handle):
        return Observation("absent", message=f"the process that should start it ({handle['pid']}) has ended", over=True)
    root = handle["queue"]
    if root not in said:
        waits = _unfinished_dependencies(root)
        said[root] = f"waits for {', '.join(waits)}" if waits else "waits in this machine's queue"
    return Observation("queued", message=said[root])


def notify_queues(handles: Sequence[Handle]) -> None:
    """Send SIGCHLD to the queue processes that these handles name, all on this machine, to notify them that a run must
    be cancelled."""
    for pid in {handle["pid"] for handle in handles if may_be_signalled(handle)}:
        processes.signal_process(pid, signal.SIGCHLD)


def _unfinished_dependencies(root: str) -> list[str]:
    return [
        each["run"]
        for each in read_after(root)
        if not all(os.path.exists(RunPaths(other).result) for other in each["roots"])
    ]
