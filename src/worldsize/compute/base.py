"""The protocol of computes: eight methods, each with its guarantee. A compute keeps no job state of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple, Protocol
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module
from worldsize.state.records import Observation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

Handle = Mapping[str, "Any"]
"""A compute's native id of a submission, as JSON. It is kept in handle.json and outlives the process."""

OUTPUTS = "outputs"
"""The capability of computes that keep the files that runs leave behind until the user fetches them."""

MIRRORED = "mirrored"
"""The capability of computes whose nodes do not see run directories: `observe` writes there what nodes have written."""

IdleCallback = Callable[[], None]
"""A function that is called about ten times a second during the wait for an answer. An exception from it abandons the
request."""


_NODE_COMMANDS = {"local": "wings.node_commands.local", "slurm": "wings.node_commands.slurm"}
"""The modules with which the core's computes execute commands. They have `execute`, `open_shell` and further functions,
all of which receive what the compute knows."""


def load_node_commands(kind: str) -> ModuleType:
    """Return the module that executes commands on the nodes of a compute of the type `kind`, "local" or "slurm". Raise
    ConfigError if this installation does not include it."""
    return load_module(_NODE_COMMANDS[kind], "executing commands on nodes")


class ComputeFacts(NamedTuple):
    """The facts about a compute that planning needs.

    `gpus_per_node`     None if it is not known
    `cores_per_node`    of one (virtual) node; None if only the node itself will know
    `shared_host`       all nodes are this one machine: they share its cores
    `kept`              the compute's own variables that ranks see as the node has them
    `modules`, `setup`  modules to load and lines to execute on this compute, before a job's own
    `mapped`            directories that the nodes share with this machine: the name on this machine, the name on the
                        nodes; empty if they see the same paths. With it nothing of this machine's PATH reaches a plan
    `python`            the program that runs Python programs on the nodes, if the nodes are not this machine
    `rdzv_endpoint`     HOST or HOST:PORT of torchrun's rendezvous, if the user has named it
    `errands`           its nodes are reached only through files of the run directory
    `shielded`          it cancels a run with INT to all processes of its nodes, which only agents must receive
    `hosted`            a service places inputs and outputs, and builds environments: nothing is fetched or built here,
                        and a plan names the places by marks (plan/hosted_places.py)
    `agents`            ranks are started by this program's agents; False: a service starts them itself
    """

    gpus_per_node: int | None = None
    cores_per_node: int | None = None
    shared_host: bool = False
    kept: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    mapped: tuple[tuple[str, str], ...] = ()
    python: str = "python"
    rdzv_endpoint: str | None = None
    errands: bool = False
    shielded: bool = False
    hosted: bool = False
    agents: bool = True


EmbeddedFiles = Callable[[], Mapping[str, bytes]]
"""A function that returns the files inside a submission that must work without its run directory: content by name in
that directory."""


class CheckResult(NamedTuple):
    """A finding of the checks before the start. `level` is "error" (the run would fail) or "notice".

    local  it is about this machine, from which the job may never be submitted: a dry run continues
    id     for a notice, its kind (state/notices.py)
    """

    level: str
    what: str
    where: str | None = None
    hint: str | None = None
    local: bool = False
    id: str = ""


class RunDependency(NamedTuple):
    """A run, or an array of runs, that has to end before a submission starts.

    handles  of those that have not ended yet, all of the type of compute that the submission goes to
    roots    their run directories
    any_end  whether any end is accepted; otherwise the run, or every run of the array, must have SUCCEEDED
    """

    run_id: str
    handles: tuple[Handle, ...]
    roots: tuple[str, ...] = ()
    any_end: bool = False


class Submission(NamedTuple):
    """Exactly what will be sent. `preview` is readable and complete; `payload` is the compute's own.

    For an array the first element is rendered, and applies to all elements. The others differ only in `plan` and
    `paths`, and `paths.root` only in the element's number at its end. `plan.array` contains the element's number.
    """

    plan: Plan
    paths: RunPaths
    preview: str
    payload: Any = None
    after: tuple[RunDependency, ...] = ()


class Compute(Protocol):
    """A named place to run.

    name          the name in the configuration
    capabilities  flags; "local": the run's processes are on this machine; "script": the text of a submission's preview
                  can be submitted by hand, and trains; "queue": a run may have to wait, and the compute can report why;
                  "after": a submission's `after` is observed; "array": no more elements of an array run at once than
                  it allows; "steps": its nodes have srun; "everywhere": a command without a run goes to all nodes
                  unless the user sets a number; further ones name capabilities (compute/capabilities.py)
    """

    name: str
    capabilities: frozenset[str]

    def facts(self, job: Job) -> ComputeFacts:
        """Return the facts about this compute that the planning of `job` needs, such as the GPUs and cores of a node.
        Only reads; cheap."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """Check whether the planned job can run on this compute. Return everything that would go wrong, as a list of
        CheckResult, all at once. Only reads; never raises for an expected problem."""

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        """Render exactly what will be submitted to this compute for a job, as a Submission. Pure: the same job and plan
        give the same bytes. `files` is called only if the files travel inside the submission."""

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        """Create the native jobs on this compute: of one run, or of all elements of one array in their order. No other
        method creates native jobs. Return one handle for each, with its native id.

        Raise SubmitRejected if the submission is refused for good. Raise SubmitAgain if nothing was created and trying
        again is safe. The run id is part of the native job's name, so that a job whose reply was lost is found again.
        """

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        """Query this compute for the states of the runs with these handles. Return one observation for each handle,
        from one query for all. "absent" is reported explicitly, and never means that the run succeeded. `idle` is
        called while the answer is waited for."""

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        """Return the seconds until `observe` may be called again by a process that follows `runs` runs whose state is
        `age` seconds old. `queued` means that all of them wait."""

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        """Request this compute to end each run with one of these handles, with few requests; do not wait. `now` means
        without grace. Harmless if it is repeated, and for a run that has ended."""

    def end_remains(self, handle: Handle) -> int:
        """Kill at once the processes that the run with this handle, which is over, may have left where this process can
        reach them. Return the number of these processes."""
