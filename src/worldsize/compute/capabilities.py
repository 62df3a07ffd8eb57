"""Capabilities that some computes have in addition to running jobs: they list their nodes, execute a command on them,
explain a wait, or report what a run used. A compute has a capability if its `capabilities` name it; other computes need
not have its methods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple, Protocol
from worldsize.compute.base import CheckResult, Compute, Handle
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

ALLOCATION = "inside an allocation"
NODE_LIMIT = "node limit"
"""The capability of computes that know the maximum number of nodes of a run, and not each of their nodes."""
ACCESS = "access"
"""The capability of computes that know what this machine and account need to use them."""


def start_place(compute: Compute) -> str:
    """Return a text about where the runs of an array start, for a compute that starts all of them at once: "inside an
    allocation", whose nodes have srun, or "on NAME"."""
    return ALLOCATION if "steps" in compute.capabilities else f"on {compute.name}"


class ComputeNode(NamedTuple):
    """A node of a compute. Memory is in MiB; None if the compute does not report it.

    state     the compute's word: "idle", "mixed", "down", …; `note` adds to it: "not responding"
    usable    whether runs are started on it, now or once others end
    reason    the reason why it is not usable
    groups    partitions or node groups; `default_groups` are those of a run that names none
    gpu_type  "h100"; several: "a100,a30"; "" for none
    load      how busy its CPUs are, in percent
    """

    name: str
    state: str
    note: str = ""
    usable: bool = True
    reason: str = ""
    groups: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()
    cpus: int | None = None
    cpus_free: int | None = None
    memory: int | None = None
    memory_free: int | None = None
    gpu_type: str = ""
    gpus: int | None = None
    gpus_free: int | None = None
    load: float | None = None


class NodeCommand(NamedTuple):
    """A command that is executed once on each of some nodes: on the nodes of a run, or on nodes of a separate
    allocation.

    argv       executed as it is, without a shell in between
    nodes      their numbers, ascending: those of the run's plan, or of a separate allocation, from 0
    cwd        the working directory; a node of a separate allocation that lacks it uses the home directory instead
    plan       of the run next to whose ranks it is executed, in their environment, with its `paths`; None: a separate
               allocation
    hosts      the names of the run's nodes, as far as they have reported them; for a separate allocation, the nodes
               that are requested by name, all or none
    limit      seconds that it is expected to last; None if that was not given
    variables  the command's variables in addition to those of its node
    named      the programs or files that it executes or loads by a name of this machine
    python     whether `argv` are words of a Python (3.8 or later), of the one that serves commands on that node
    """

    argv: tuple[str, ...]
    nodes: tuple[int, ...]
    cwd: str
    plan: Plan | None = None
    paths: RunPaths | None = None
    hosts: Mapping[int, str] = {}
    limit: float | None = None
    variables: Mapping[str, str] = {}
    named: tuple[str, ...] = ()
    python: bool = False


class NodeEvent(NamedTuple):
    """An event of a node command. `kind` is "up" (`data` is the host's name), "out" or "err" (output of the command),
    "end" (`code`, 128+N for signal N), or "lost" (the reason why no end will come, if it is known). "note" belongs to
    no node (-1): it is a message of the compute itself."""

    node: int
    kind: str
    data: bytes = b""
    code: int = 0


class NodeCommandStream(Protocol):
    """A node command in execution."""

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        """Return the new events of the node command (hosts, output, ends of nodes), after at most `timeout` seconds;
        None if no more will come.

        Raise SubmitRejected or SubmitAgain, with the reason, if no node was reached. A node that has not reported its
        "end" by then was lost.
        """

    def stop(self) -> None:
        """Request the end of the command on all its nodes: TERM, a short grace period, KILL. Do not wait. Events until
        then are still returned."""

    def close(self) -> None:
        """Kill at once the processes of the command that still run on its nodes, and wait until they have ended.
        Harmless if it is repeated, and after the end."""


class NodeStartStatus(NamedTuple):
    """The knowledge of a scheduler about the nodes of a command, in addition to their files.

    begun  whether the nodes should have begun by now
    gone   the nodes that write nothing more, and why
    note   a line for users; shown if it differs from the one before
    """

    begun: bool = True
    gone: Mapping[int, str] = {}
    note: str = ""


class HasNodes(Protocol):
    """The capability "nodes". `group_noun` is the scheduler's word for `ComputeNode.groups`."""

    group_noun: str

    def nodes(self) -> list[ComputeNode]:
        """Return a ComputeNode for every node of this compute, in the compute's order. Raise SubmitAgain,
        SubmitRejected or ConfigError."""


class CanCheckAccess(Protocol):
    """The capability "access"."""

    def check_access(self) -> list[CheckResult]:
        """Return what this machine and account lack to use the compute, as far as that is known here, without
        contacting the compute or asking the user. An error prevents runs; a notice is about something that may. Never
        raise for an expected problem."""


class HasNodeLimit(Protocol):
    """The capability "node limit"."""

    def node_limit(self) -> int | None:
        """Return the maximum number of nodes of a run on this compute; None if the compute does not report it. Raise
        SubmitAgain, SubmitRejected or ConfigError."""


class CanExecute(Protocol):
    """The capability "exec"."""

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        """Start a node command on nodes of the running run with this handle, whose ranks it neither waits for nor
        disturbs; with None as `handle`, on the same number of nodes of a separate allocation. Return the stream of its
        events. The command ends when this process does. Raise UsageError if the run cannot be reached from this
        machine."""

    def shell(self, handle: Handle, command: NodeCommand) -> int:
        """Open an interactive shell on the command's only node, at the terminal of this process. Return the shell's
        exit code, unless this process becomes the shell itself. Raise UsageError if the run cannot be reached from this
        machine."""


class CanRequeue(Protocol):
    """The capability "requeue"."""

    def requeue(self, handle: Handle, attempt: int) -> None:
        """Make the scheduler start the run with this handle again as attempt `attempt`: a run that has failed or was
        cancelled, or one that still runs, which is ended first. Raise SubmitRejected if that is not possible (any
        more); raise SubmitAgain."""


class Change(NamedTuple):
    """Other options, by the job file's keys, with which a run would start at `start`. `gain` is the number of seconds
    by which it would start sooner; None if it would not start at all with its present options."""

    options: Mapping[str, str]
    words: str
    start: float
    gain: float | None


class WaitExplanation(NamedTuple):
    """The reason why a run has not started. `reason` is the compute's own word. `expected` is its estimate of the start
    (Unix seconds). `stuck` means that the run will not start without a change by the user or an administrator."""

    reason: str
    words: str
    expected: float | None = None
    stuck: bool = False
    sooner: tuple[Change, ...] = ()


class CanExplain(Protocol):
    """The capability "explain"."""

    def explain(self, handle: Handle, script: str, seconds: float, secrets: Collection[str]) -> WaitExplanation | None:
        """Return why the run with this handle waits, and what would start it sooner, as far as this can be found out in
        `seconds`; None if it does not wait. `script` is the submitted script; "" if no changes must be tried. `secrets`
        names variables that the scheduler must not get. Raise SubmitAgain or SubmitRejected."""


class Usage(NamedTuple):
    """The resources that a run used, in all attempts together; None for values that were not counted.

    elapsed         seconds that it held its nodes
    cpu_efficiency  CPU time that its processes took ÷ CPU time that it held
    """

    nodes: int
    elapsed: int
    gpus: int | None
    gpu_hours: float | None
    cpu_hours: float | None
    cpu_efficiency: float | None


def total_usage(used: Sequence[Usage]) -> Usage:
    """Return the resources (Usage) that several runs used together, whether or not they ran at the same time. The CPU
    efficiency is the mean, weighted by the CPU time that each run held. `nodes` is the largest number of nodes of a
    run."""
    held = [
        (each.cpu_hours, each.cpu_efficiency) for each in used if each.cpu_hours and each.cpu_efficiency is not None
    ]
    hours = sum(hours for hours, _ in held)
    return Usage(
        nodes=max(each.nodes for each in used),
        elapsed=sum(each.elapsed for each in used),
        gpus=None,
        gpu_hours=_sum([each.gpu_hours for each in used]),
        cpu_hours=_sum([each.cpu_hours for each in used]),
        cpu_efficiency=sum(hours * busy for hours, busy in held) / hours if hours else None,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class HasUsage(Protocol):
    """The capability "usage"."""

    def usage(self, handles: Sequence[Handle], patience: float) -> list[Usage | None]:
        """Return the resources (Usage) that the ended runs with these handles used, in their order, from one request;
        None for a run whose usage is not known (yet).

        Accounting lags behind, so missing values are waited for, at most `patience` seconds. Never raises because of a
        failure of the compute.
        """


class FetchProgress(Protocol):
    """A receiver of the progress of a fetch."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """Report the progress of a fetch of a run's files: `done` of `total` bytes have arrived. `what` names the
        transferred object."""


class HasOutputs(Protocol):
    """The capability "outputs": the files that runs write stay with the service, until the user fetches them.

    For each file the service knows its place in the run's directory: `./outputs`, `./logs`, and each named output at
    its place (`places`). All methods raise SubmitAgain, SubmitRejected, ConfigError, StorageError.
    """

    def list_outputs(self, handle: Handle, paths: RunPaths, places: Mapping[str, str]) -> dict[str, int]:
        """Return the size in bytes of each file that the run with this handle has left at the service so far, by its
        place in the run's directory. Nothing is fetched."""

    def fetch_outputs(
        self,
        handle: Handle,
        paths: RunPaths,
        places: Mapping[str, str],
        is_wanted: Callable[[str], bool],
        progress: FetchProgress,
    ) -> None:
        """Download those of the run's files at the service whose place `is_wanted` accepts, and write them to their
        places in the run's directory. Files that have been fetched and have not changed since then are skipped."""
