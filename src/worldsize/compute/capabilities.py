"""What some computes can do beside running: tell of their nodes, execute a command on them, explain a wait, say what a
run used. A compute has a capability where its `capabilities` name it; nobody else owes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple, Protocol
from worldsize.compute.base import Compute, Handle
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

ALLOCATION = "inside an allocation"
NODE_LIMIT = "node limit"
"""The capability of computes that know the most nodes of a run, and not each of their nodes."""


def start_place(compute: Compute) -> str:
    """Where the runs of an array start, of a compute that starts all of them at once: "inside an allocation", whose
    nodes have srun, or "on NAME"."""
    return ALLOCATION if "steps" in compute.capabilities else f"on {compute.name}"


class ComputeNode(NamedTuple):
    """One node of a compute. Memory is in MiB; None where the compute does not tell.

    state     the compute's word: "idle", "mixed", "down", …; `note` adds to it: "not responding"
    usable    whether runs are started on it, now or once others end
    reason    why it is not
    groups    partitions or node groups; `default_groups` are those that a run goes to which names none
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
    """A command, to be executed once on each of some nodes.

    argv       executed as it is, without a shell in between
    nodes      their numbers, ascending: those of the run's plan, or of an allocation of its own, from 0
    cwd        where; a node of its own that lacks it takes the home instead
    plan       of the run beside whose ranks it is executed, in their environment, with its `paths`; None: nodes of its
               own
    hosts      what the run's nodes call themselves, as far as they have told; of nodes of its own, those that are
               wanted by name, all or none
    limit      seconds for which it is meant to last; None: nobody has said
    variables  what the command gets beside its node's own
    named      what it executes or loads by a name of this machine
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
    """News of a node command. `kind`: "up" (`data` is the host's name), "out", "err" (what the command wrote), "end"
    (`code`, 128+N for signal N), "lost" (why no end is to be expected, where that is known); and "note", of no node
    (-1): what the compute itself has to say."""

    node: int
    kind: str
    data: bytes = b""
    code: int = 0


class NodeCommandStream(Protocol):
    """A node command on its way."""

    def read_events(self, timeout: float) -> list[NodeEvent] | None:
        """What is new, after at most `timeout` seconds; None: nothing more will come.

        SubmitRejected, SubmitAgain: no node was reached, and why. A node of which no "end" was told by then was lost.
        """

    def stop(self) -> None:
        """Ask for the end: TERM, a short grace, KILL. Does not wait; what is told until then is still heard."""

    def close(self) -> None:
        """End at once what still runs, and wait until it has. Harmless when repeated, and after the end."""


class NodeStartStatus(NamedTuple):
    """What a scheduler knows of the nodes of a command, in addition to their files.

    begun  whether the nodes should have begun by now
    gone   the nodes that write nothing more, and why
    note   a line for people; shown when it differs from the one before
    """

    begun: bool = True
    gone: Mapping[int, str] = {}
    note: str = ""


class HasNodes(Protocol):
    """Capability "nodes". `group_noun`: the scheduler's word for `ComputeNode.groups`."""

    group_noun: str

    def nodes(self) -> list[ComputeNode]:
        """Return every node, in the compute's order. Raises SubmitAgain, SubmitRejected, ConfigError."""


class HasNodeLimit(Protocol):
    """Capability "node limit"."""

    def node_limit(self) -> int | None:
        """Return the most nodes that a run can have, or None where the compute does not tell. Raises SubmitAgain,
        SubmitRejected, ConfigError."""


class CanExecute(Protocol):
    """Capability "exec"."""

    def execute(self, handle: Handle | None, command: NodeCommand) -> NodeCommandStream:
        """Start the command: on nodes of a running run, whose ranks it neither waits for nor disturbs; with None on as
        many nodes of its own. The command ends when this process does. UsageError for a run that cannot be reached from
        here."""

    def shell(self, handle: Handle, command: NodeCommand) -> int:
        """Open an interactive shell on the command's one node, at the terminal of this process. Returns the shell's
        exit code, unless this process becomes the shell itself. UsageError as above."""


class CanRequeue(Protocol):
    """Capability "requeue"."""

    def requeue(self, handle: Handle, attempt: int) -> None:
        """Put the run back into the queue, as attempt `attempt`: one that has failed or was cancelled, or one that
        runs, which is ended first. SubmitRejected where it cannot be (any more); SubmitAgain."""


class Change(NamedTuple):
    """Other options, by the job file's keys, with which a run would start at `start`; `gain` is how many seconds
    sooner, None where it would not start at all as it is."""

    options: Mapping[str, str]
    words: str
    start: float
    gain: float | None


class WaitExplanation(NamedTuple):
    """Why a run has not started. `reason` is the compute's own word; `expected` its estimate of the start (Unix
    seconds); `stuck`: it will not start unless somebody does something."""

    reason: str
    words: str
    expected: float | None = None
    stuck: bool = False
    sooner: tuple[Change, ...] = ()


class CanExplain(Protocol):
    """Capability "explain"."""

    def explain(self, handle: Handle, script: str, seconds: float, secrets: Collection[str]) -> WaitExplanation | None:
        """Why the run waits, and what would start it sooner, as far as `seconds` are enough to find out; None when it
        does not wait. `script` is what was submitted, "" where it is not to be tried; `secrets` names variables that
        the scheduler is not to get. Raises SubmitAgain, SubmitRejected."""


class Usage(NamedTuple):
    """What a run used, all attempts together; None where nobody counted.

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
    """What several runs used, one after the other or not; how busy their CPUs were, by the time that each held."""
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
    """Capability "usage"."""

    def usage(self, handles: Sequence[Handle], patience: float) -> list[Usage | None]:
        """What runs that have ended used, in their order, from one request; None where it is not known (yet).

        Accounting lags behind: for what may still come, it is waited at most `patience` seconds. Never raises for what
        the compute may do.
        """


class FetchProgress(Protocol):
    """Where a fetch says how far it is."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """So many bytes of what is called `what` are there."""


class HasOutputs(Protocol):
    """Capability "outputs": what runs write stays with the service, until somebody fetches it.

    Of each file the service knows where it belongs in the run's directory: `./outputs`, `./logs`, and each named output
    at its place (`places`). All raise SubmitAgain, SubmitRejected, ConfigError, StorageError.
    """

    def list_outputs(self, handle: Handle, paths: RunPaths, places: Mapping[str, str]) -> dict[str, int]:
        """Return the bytes of each file that the run has left so far, by where it belongs. Nothing is fetched."""

    def fetch_outputs(
        self,
        handle: Handle,
        paths: RunPaths,
        places: Mapping[str, str],
        is_wanted: Callable[[str], bool],
        progress: FetchProgress,
    ) -> None:
        """Write the files that are wanted, by where they belong; those that have been fetched and have not changed
        since then are left."""
