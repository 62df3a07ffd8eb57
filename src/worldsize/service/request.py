"""What a submission begins with, what its preparation makes of it, and the progress that is reported meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.compute.base import CheckResult, Compute, ComputeFacts, RunDependency
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import ElementValues, Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.notices import PREPARATION, Notice, notice_at
from worldsize.trust.secrets import mask_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.environments.lookup import Environment
    from worldsize.store.content_store import FetchedData


class KeyOrigins(NamedTuple):
    """`lines` of a job file by YAML path, and the options of the command line that set a path."""

    source: str = ""
    lines: Mapping[str, int] = {}
    options: Mapping[str, str] = {}

    def of(self, key: str) -> str:
        """`--set inputs.lr`, else `job.yml:7: inputs.lr`, else the key; a parent's place stands in for its children."""
        path = key
        while path:
            if path in self.options:
                return self.options[path]
            if self.lines.get(path):
                return f"{self.source}:{self.lines[path]}: {key}"
            path = path.rpartition(".")[0]
        return key

    def is_set(self, key: str) -> bool:
        """Return whether the job file or an option of the command line sets this very key."""
        return key in self.options or key in self.lines


class Progress:
    """What a person may want to know while a run is prepared; nobody is told unless a subclass does."""

    notices: tuple[Notice, ...] = ()
    """What was said, for the record."""

    def notice(self, text: str, id: str = PREPARATION, where: str | None = None) -> None:
        """Say something once, without the secrets in it. `id`: its kind, of state/notices.py; `where`: what it is
        about, as a finding has it."""
        shown = mask_text(text)
        self.notices = (*self.notices, notice_at(id, shown, where))
        self.show_notice(shown)

    def show_notice(self, text: str) -> None:
        """Show a notice; nothing unless a subclass does."""

    def confirm_snapshot(self, directory: str, files: int, size: int) -> None:
        """Ask whether all of a directory is meant that holds more than code: of so many files and bytes. UsageError for
        no; nobody is asked unless a subclass does."""

    def step(self, what: str, done: int, total: int) -> None:
        """Note how far something is that may take long; `total` 0: not known. Called often."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """Note how far it is in bytes, for what is fetched; otherwise as `step`."""

    def show_activity(self, what: str) -> None:
        """Show what is being done that may take minutes. Called often."""


class StagingDirectory(NamedTuple):
    """What a job stages. `variables` tell the libraries; `contents` is for the record: where everything came from, and
    checksums."""

    path: str
    variables: Mapping[str, str]
    contents: Mapping[str, Any]


class EnvironmentPack(NamedTuple):
    """A packed environment. `digest` is the file's sha256; `unpacked` counts the bytes that it takes on a disk."""

    path: str
    digest: str
    size: int
    unpacked: int
    files: int
    notices: tuple[str, ...]


class SubmissionRequest(NamedTuple):
    """A job and everything around it that a submission needs.

    origins where each key of the job was said
    argv    the words that the user typed, for the record
    after   what has to end before it starts
    fetched what the URIs of inputs stand for, once they were fetched, by the inputs' names
    staged  what the job stages, once it is ready
    packed  its environment as one file, where the nodes unpack it
    image   its container image as one file, once it was fetched
    check   what its nodes and its script are checked for before its ranks start: {mode, only, skip, asked}, as the wing
            `checks` reads it; empty: for nothing; None: in the cheap form, where that is of use
    terminal  its only rank gets the terminal, or the streams, of this process
    debugger  the rank that is to wait for a debugger
    dry     nothing is submitted: what only this machine is in the way of is a notice
    told    what was said of the job before, for the record
    """

    job: Job
    config: Config
    compute: str | None
    environ: Mapping[str, str]
    cwd: str
    origins: KeyOrigins = KeyOrigins()
    argv: Sequence[str] = ()
    after: tuple[RunDependency, ...] = ()
    fetched: Mapping[str, FetchedData] = {}
    staged: StagingDirectory | None = None
    packed: EnvironmentPack | None = None
    image: str | None = None
    check: Mapping[str, Any] | None = None
    terminal: bool = False
    debugger: int | None = None
    dry: bool = False
    told: tuple[Notice, ...] = ()


class PlannedJob(NamedTuple):
    """A job on its compute, planned and checked. Of an array the first run, which the others are like but for their
    inputs.

    job       of the one run
    plan      of the one run, in the directory `paths`
    facts     what its compute told of itself
    data      where the ranks find the data of inputs, by name
    environment  what they run in, if the job says
    loaded    what they load by a name of this machine whatever their command is; None where no node need look at it
    wrap      words that stand in front of each rank's command
    elements  the inputs of each run, of those that vary
    """

    job: Job
    plan: Plan
    paths: RunPaths
    compute: Compute
    facts: ComputeFacts
    notices: tuple[CheckResult, ...]
    data: Mapping[str, str] = {}
    environment: Environment | None = None
    loaded: tuple[str, ...] | None = None
    wrap: tuple[str, ...] = ()
    elements: tuple[ElementValues, ...] = ({},)

    @property
    def is_array(self) -> bool:
        return self.plan.array is not None
