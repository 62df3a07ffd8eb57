"""What a compute is: eight methods, each with its guarantee, and no job state of its own."""

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
"""A compute's native id of a submission, as JSON: it is kept in handle.json and outlives the process."""

OUTPUTS = "outputs"
"""The capability of computes that keep what runs leave behind until somebody fetches it."""

MIRRORED = "mirrored"
"""The capability of computes whose nodes do not see run directories: `observe` writes there what nodes have written."""

IdleCallback = Callable[[], None]
"""Called about ten times a second while an answer is waited for; what it raises gives the question up."""


_NODE_COMMANDS = {"local": "wings.node_commands.local", "slurm": "wings.node_commands.slurm"}
"""What the core's computes execute commands by: modules with `execute`, `open_shell` and more, all of which take what
the compute knows."""


def load_node_commands(kind: str) -> ModuleType:
    """Return the module for the compute `kind`. ConfigError where this installation is without it."""
    return load_module(_NODE_COMMANDS[kind], "executing commands on nodes")


class ComputeFacts(NamedTuple):
    """What planning needs to know of a compute.

    gpus_per_node   None where nobody knows
    cores_per_node  of one (virtual) node; None where only the node itself will know
    shared_host     all nodes are this one machine: they share its cores
    kept            variables of its own that ranks see as the node has them
    modules, setup  what it asks to be loaded and executed before a job's own
    mapped          directories that the nodes share with this machine: as it is called here, as the nodes call it;
                    empty where they see the same paths. With it nothing of this machine's PATH reaches a plan
    python          what runs Python programs on the nodes, where those are not this machine's
    rdzv_endpoint   HOST or HOST:PORT where torchrun is to meet, where somebody named it
    errands         its nodes are reached through files of the run directory alone
    shielded        it cancels a run with INT to all processes of its nodes, which only agents are to hear
    hosted          a service places inputs and outputs, and builds environments: nothing is fetched or built here, and
                    a plan names the places by marks (plan/hosted_places.py)
    agents          ranks are started by this program's agents; False: a service starts them itself
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
"""What travels inside a submission that is to work without its run directory: content by name in that directory."""


class CheckResult(NamedTuple):
    """One preflight finding. `level` is "error" (the run would fail) or "notice".

    local  it is about this machine, from which the job may never be submitted: a dry run goes on
    id     of a notice, the kind of it (state/notices.py)
    """

    level: str
    what: str
    where: str | None = None
    hint: str | None = None
    local: bool = False
    id: str = ""


class RunDependency(NamedTuple):
    """A run, or an array of runs, that has to end before a submission starts.

    handles  of those that have not ended yet, all of the kind of compute that the submission goes to
    roots    their run directories
    any_end  however it ends; otherwise only once it has SUCCEEDED, and an array once all of it has
    """

    run_id: str
    handles: tuple[Handle, ...]
    roots: tuple[str, ...] = ()
    any_end: bool = False


class Submission(NamedTuple):
    """Exactly what will be sent. `preview` is readable and complete; `payload` is the compute's own.

    Of an array the first element is rendered, and what was rendered stands for all: the others differ in `plan` and
    `paths` alone, and `paths.root` in the element's number at its end. `plan.array` says which is which.
    """

    plan: Plan
    paths: RunPaths
    preview: str
    payload: Any = None
    after: tuple[RunDependency, ...] = ()


class Compute(Protocol):
    """A named place to run.

    name          as the configuration calls it
    capabilities  flags; "local": the run's processes are on this machine; "script": what a submission's preview shows
                  can be submitted by hand, and trains; "queue": a run may have to wait, and can tell for what;
                  "after": a submission's `after` is honoured; "array": of an array no more elements run at once
                  than it says; "steps": its nodes have srun; "everywhere": a command without a run goes to all
                  nodes unless somebody says how many; further ones name capabilities (compute/capabilities.py)
    """

    name: str
    capabilities: frozenset[str]

    def facts(self, job: Job) -> ComputeFacts:
        """What planning needs. Reads only; cheap."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """Everything that would go wrong, all at once. Reads only; never raises for an expected problem."""

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        """Pure: the same job and plan give the same bytes. `files` is called only where they travel."""

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        """Return the sole creator of native jobs: one run, or all elements of one array in their order. On return the
        native ids are known, one handle for each.

        SubmitRejected: refused for good. SubmitAgain: nothing was created, trying again is safe. The run id travels in
        the native job's name, so that a lost reply is found again.
        """

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        """One observation per handle, from one query for all. "absent" is said, and never means that it succeeded.
        `idle` is called where the answer takes its time."""

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        """Seconds until `observe` may be asked again, by whoever follows so many runs whose state is `age` seconds old.
        `queued`: all of them wait."""

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        """Ask for the end of each, with few requests; does not wait. `now`: without grace. Harmless when repeated, and
        on a run that has ended."""

    def end_remains(self, handle: Handle) -> int:
        """End at once what a run that is over may have left where this process can reach it; how many processes that
        were."""
