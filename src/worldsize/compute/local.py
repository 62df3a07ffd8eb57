"""This machine: N virtual nodes × M ranks under one detached conductor."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import threading
import time
from collections.abc import Mapping, Sequence

from worldsize.agent import processes
from worldsize.agent.conductor import fork_conductor, spawn_conductor
from worldsize.agent.rendezvous import OPEN_FILES
from worldsize.agent.signals import STOP_NOW
from worldsize.compute import remains
from worldsize.compute.base import CheckResult, ComputeFacts, Handle, Submission
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.spec.job import Job
from worldsize.state.records import Observation

_ALWAYS_POSSIBLE = 200
"""So many processes are looked at by nobody before they are started."""

_PATIENCE = 2.0
_PAUSE = 0.02


class LocalCompute:
    capabilities = frozenset(("local",))

    def __init__(self, name: str, environ: Mapping[str, str], gpus_per_node: int | None = None) -> None:
        self.name = name
        self._environ = environ
        self._gpus_per_node = gpus_per_node

    def facts(self, job: Job) -> ComputeFacts:
        return ComputeFacts(self._asked_gpus(job), len(os.sched_getaffinity(0)), shared_host=True)

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        found = _limits(plan) if len(plan.nodes) + plan.world_size > _ALWAYS_POSSIBLE else []
        cores = len(os.sched_getaffinity(0))
        if plan.world_size > cores:
            what = "%d ranks share this machine's %d core%s" % (plan.world_size, cores, "" if cores == 1 else "s")
            found.append(CheckResult("notice", what))
        return found

    def render(self, plan: Plan, paths: RunPaths) -> Submission:
        words = ["python3", paths.agent, paths.root, "--node-rank"]
        lines = [
            "# %d virtual node%s on this machine, under one detached conductor;"
            % (len(plan.nodes), "" if len(plan.nodes) == 1 else "s"),
            "# forked from this interpreter, each agent does what its line would do as a program",
        ]
        lines += [" ".join(map(shlex.quote, [*words, str(node.node_rank)])) for node in plan.nodes]
        return Submission(plan, paths, "\n".join(lines) + "\n")

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        return [self._start(each) for each in submissions]

    def observe(self, handles: Sequence[Handle]) -> list[Observation]:
        return [self._observe(handle) for handle in handles]

    def cancel(self, handle: Handle, now: bool = False) -> None:
        """A conductor that is gone has agents that end by themselves; what is left of the run is found by its mark."""
        if handle["host"] != socket.gethostname():
            return
        if _alive(handle):
            processes.signal_process(handle["pid"], STOP_NOW if now else signal.SIGTERM)
            processes.signal_process(handle["pid"], signal.SIGCONT)
        else:
            for pid in remains.marked(handle["run_id"]):
                processes.signal_process(pid, signal.SIGKILL if now else signal.SIGTERM)

    def end_remains(self, handle: Handle) -> int:
        if handle["host"] != socket.gethostname():
            return 0
        left = len(remains.marked(handle["run_id"]))
        deadline = time.monotonic() + _PATIENCE
        while _alive(handle) and time.monotonic() < deadline:  # it knows best what belongs to the run
            self.cancel(handle, now=True)
            time.sleep(_PAUSE)
        return max(left, remains.end_remains(handle["run_id"], handle["pid"], handle["start_time"]))

    def _asked_gpus(self, job: Job) -> int | None:
        """GPUs count once somebody asks for them: many CPU ranks may well run on a machine that has one GPU."""
        if self._gpus_per_node is not None:
            return self._gpus_per_node
        asked = job.slurm.get("gpus_per_node")
        return asked if isinstance(asked, int) else _gpus() if job.visible_devices else None

    def _start(self, submission: Submission) -> Handle:
        if _threads() == 1:
            pid = fork_conductor(submission.plan, submission.paths, self._environ)
        else:
            pid = spawn_conductor(submission.paths, self._environ)
        return {
            "type": "local",
            "pid": pid,
            "start_time": processes.start_time(pid),
            "host": socket.gethostname(),
            "run_id": submission.plan.run_id,
        }

    def _observe(self, handle: Handle) -> Observation:
        if handle["host"] != socket.gethostname():
            return Observation("unknown", message="it runs on %s" % handle["host"])
        if _alive(handle):
            return Observation("running")
        started = handle["start_time"]
        over = started is not None and not remains.agents(handle["pid"], started)
        return Observation("absent", message="its conductor (process %d) is gone" % handle["pid"], over=over)


def _limits(plan: Plan) -> list[CheckResult]:
    """What this machine, or this user on it, may not start at all."""
    import resource

    found = []
    processes_needed = len(plan.nodes) + plan.world_size
    allowed = min(_finite(resource.getrlimit(resource.RLIMIT_NPROC)[1]), _pid_max(), _fit_in_memory())
    if processes_needed > allowed:
        what = "%d ranks on %d nodes are %d processes, and this machine allows %d"
        values = (plan.world_size, len(plan.nodes), processes_needed, allowed)
        found.append(CheckResult("error", what % values, "resources.instance_count", "ask for fewer, such as -w 2x2"))
    files = _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    if len(plan.nodes) + OPEN_FILES > files:
        what = "%d nodes need as many open files, and %d are allowed (ulimit -Hn)" % (len(plan.nodes), files)
        found.append(CheckResult("error", what, "resources.instance_count", "more processes per node, on fewer nodes"))
    return found


def _finite(limit: int) -> int:
    return limit if limit >= 0 else 1 << 62


def _pid_max() -> int:
    try:
        with open("/proc/sys/kernel/pid_max") as file:
            return int(file.read())
    except OSError:
        return 1 << 62


def _fit_in_memory() -> int:
    """Processes at 1 MiB each, which is less than any of them takes."""
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20)


def _alive(handle: Handle) -> bool:
    """Whether the conductor still runs; one that is our own child is reaped when it does not."""
    pid = handle["pid"]
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass
    return handle["start_time"] is not None and processes.start_time(pid) == handle["start_time"]


def _threads() -> int:
    """Threads of this process, those of native libraries included."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()


def _gpus() -> int:
    """NVIDIA devices of this machine, from /proc: no library is loaded to count them."""
    try:
        return len(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        return 0
