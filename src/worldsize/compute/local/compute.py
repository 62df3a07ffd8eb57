"""This machine: N virtual nodes × M ranks under one detached conductor."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import STOP_NOW
from worldsize.common.numbers import parse_digits
from worldsize.compute.base import (
    CheckResult,
    ComputeFacts,
    EmbeddedFiles,
    Handle,
    IdleCallback,
    Submission,
    load_node_commands,
)
from worldsize.compute.local import leftovers
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation, Reason
from worldsize.trust.procfs import withheld_variables, without_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import ComputeNode, NodeCommand, NodeCommandStream

_ALWAYS_POSSIBLE = 200
"""The number of processes up to which the limits are not checked before the start."""

_LOOK_EVERY = 0.25
_PATIENCE = 2.0
_PAUSE = 0.02


class LocalCompute:
    capabilities = frozenset(("after", "array", "exec", "local", "nodes"))
    group_noun = "partitions"

    def __init__(self, name: str, environ: Mapping[str, str], settings: ComputeSettings | None = None) -> None:
        self.name = name
        self._environ = environ
        self._settings = settings or ComputeSettings(name)

    def facts(self, job: Job) -> ComputeFacts:
        own = self._settings.options
        cores = len(os.sched_getaffinity(0))
        return ComputeFacts(
            self._requested_gpus(job), cores, True, modules=own.get("modules", ()), setup=own.get("setup", ())
        )

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        found = _exceeded_limits(plan) if len(plan.nodes) + plan.world_size > _ALWAYS_POSSIBLE else []
        cores = len(os.sched_getaffinity(0))
        if plan.world_size > cores:
            what = "{} ranks share this machine's {} core{}".format(plan.world_size, cores, "" if cores == 1 else "s")
            found.append(CheckResult("notice", what, id="cores-shared"))
        return found

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        from shlex import quote

        words = ["python3", paths.agent, paths.root, "--node-rank"]
        lines = [
            "# {} virtual node{} on this machine, under one detached conductor;".format(
                len(plan.nodes), "" if len(plan.nodes) == 1 else "s"
            ),
            "# forked from this interpreter, each agent does what its line would do as a program",
        ]
        lines += [" ".join(map(quote, [*words, str(node.node_rank)])) for node in plan.agents]
        return Submission(plan, paths, "\n".join(lines) + "\n")

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        if submissions[0].plan.array is not None or submissions[0].after:
            from worldsize.compute.local.array import start_queue

            return start_queue(submissions, self._environ, fork=_thread_count() == 1)
        return [self._start(each) for each in submissions]

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        said: dict[str, str] = {}
        return [self._observe(handle, said) for handle in handles]

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return _LOOK_EVERY

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        here = [handle for handle in handles if handle["host"] == processes.host_name()]
        queued = [handle for handle in here if "queue" in handle]
        for handle in here:
            if "queue" not in handle:
                self._cancel(handle, now)
        if queued:
            from worldsize.compute.local.array import notify_queues

            notify_queues(queued)

    def _cancel(self, handle: Handle, now: bool) -> None:
        """Send TERM, or with `now` QUIT, to the conductor of the local run with this handle. If the conductor is gone,
        its agents end by themselves; the other processes of the run are found by their mark and signalled."""
        if leftovers.may_be_signalled(handle):
            processes.signal_process(handle["pid"], STOP_NOW if now else signal.SIGTERM)
            processes.signal_process(handle["pid"], signal.SIGCONT)
        else:
            for pid in leftovers.find_marked_processes(handle["run_id"], handle["run_dir"]):
                processes.signal_process(pid, signal.SIGKILL if now else signal.SIGTERM)

    def end_remains(self, handle: Handle) -> int:
        if handle["host"] != processes.host_name():
            return 0
        run = (handle["run_id"], handle["run_dir"])
        if "queue" in handle:
            return leftovers.kill_leftovers(*run)
        left = len(leftovers.find_marked_processes(*run))
        deadline = time.monotonic() + _PATIENCE
        while (
            leftovers.may_be_signalled(handle) and time.monotonic() < deadline
        ):  # the conductor knows best what belongs to the run
            self._cancel(handle, now=True)
            time.sleep(_PAUSE)
        return max(left, leftovers.kill_leftovers(*run, handle["pid"], handle["start_time"]))

    def nodes(self) -> list[ComputeNode]:
        from worldsize.compute.local.reports import nodes

        return nodes()

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        stream: NodeCommandStream = load_node_commands("local").execute(handle, command, self._environ)
        return stream

    def shell(self, handle: Handle, command: NodeCommand) -> int:
        code: int = load_node_commands("local").open_shell(handle, command)
        return code

    def _requested_gpus(self, job: Job) -> int | None:
        """Return the number of GPUs per node that the job or the configuration requests, or, if the job sets
        `visible_devices` or `data_parallel`, that this machine has; None if none are requested. GPUs count only if they
        are requested, because many CPU ranks may well run on a machine that has one GPU."""
        if job.virtual_gpus is not None:
            return job.virtual_gpus
        if self._settings.gpus_per_node is not None:
            return self._settings.gpus_per_node
        asked = parse_digits(str(job.slurm.get("gpus_per_node", "")).rpartition(":")[2])
        if asked is not None:
            return asked
        if not (job.visible_devices or job.data_parallel):
            return None
        from worldsize.compute.local.reports import gpu_count

        return gpu_count()

    def _start(self, submission: Submission) -> Handle:
        from worldsize.agent.local.conductor import fork_conductor, spawn_conductor

        terminal = submission.plan.terminal
        if not terminal and _thread_count() == 1:
            pid = fork_conductor(submission.plan, submission.paths, self._environ)
        else:
            withheld = withheld_variables(submission.plan.secrets, self._environ)
            pid = spawn_conductor(submission.paths, without_variables(self._environ, withheld), terminal)
        leftovers.remember_child(pid)
        return processes.local_handle(pid, submission.plan.run_id, submission.paths.root)

    def _observe(self, handle: Handle, said: dict[str, str]) -> Observation:
        if "queue" in handle:
            from worldsize.compute.local.array import observe_queued

            return observe_queued(handle, said)
        if handle["host"] != processes.host_name():
            return Observation("unknown", message=f"it runs on {handle['host']}")
        if leftovers.is_alive(handle):
            return Observation("running")
        started = handle["start_time"]
        over = started is not None and not leftovers.living_agents(handle["pid"], started, handle["run_dir"])
        conductor = f"its conductor (process {handle['pid']})"
        if over and not leftovers.has_begun(handle["run_dir"]):
            what = f"{conductor} was killed before any agent had begun"
            return Observation("absent", Reason.NODE_FAILURE, message=what, over=True)
        return Observation("absent", message=f"{conductor} has ended", over=over)


def _exceeded_limits(plan: Plan) -> list[CheckResult]:
    """Return an error (CheckResult) for each limit of this machine, or of this user on it, that prevents the start of
    the planned run: of processes and of open files."""
    import resource

    from worldsize.agent.control.rendezvous import OPEN_FILES

    found = []
    processes_needed = len(plan.nodes) + plan.world_size
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (resource.getrlimit(resource.RLIMIT_NPROC)[1], _pid_max(), memory >> 20)  # a process takes at least 1 MiB
    allowed = min(limit for limit in limits if limit >= 0)
    if processes_needed > allowed:
        what = "%d ranks on %d nodes are %d processes, and this machine allows %d"
        values = (plan.world_size, len(plan.nodes), processes_needed, allowed)
        found.append(CheckResult("error", what % values, "resources.instance_count", "use fewer, such as -w 2x2"))
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= files < len(plan.nodes) + OPEN_FILES:
        what = f"{len(plan.nodes)} nodes need as many open files, and {files} are allowed (ulimit -Hn)"
        found.append(
            CheckResult("error", what, "resources.instance_count", "use more processes per node, on fewer nodes")
        )
    return found


def _pid_max() -> int:
    """Return the kernel's limit of process numbers on this machine; -1 if the system does not report it."""
    try:
        with open("/proc/sys/kernel/pid_max") as file:
            return int(file.read())
    except OSError:
        return -1


def _thread_count() -> int:
    """Return the number of threads of this process, including those of native libraries."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        import threading  # the import takes 0.4 ms of every start

        return threading.active_count()


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> LocalCompute:
    return LocalCompute(settings.name, environ, settings)


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> LocalCompute:
    return LocalCompute(name, environ)
