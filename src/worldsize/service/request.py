"""The input of a submission, the results of its preparation, and the progress that is reported meanwhile."""

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
    """The places where keys of a job were set. `lines` are the lines of the job file by YAML path, and `options` the
    options of the command line that set a path."""

    source: str = ""
    lines: Mapping[str, int] = {}
    options: Mapping[str, str] = {}

    def of(self, key: str) -> str:
        """Return the place where the key `key` of a job was set, for messages: the command-line option, `--set
        inputs.lr`, else the line of the job file, `job.yml:7: inputs.lr`, else the key itself. A key without a place
        gets its parent's."""
        path = key
        while path:
            if path in self.options:
                return self.options[path]
            if self.lines.get(path):
                return f"{self.source}:{self.lines[path]}: {key}"
            path = path.rpartition(".")[0]
        return key

    def is_set(self, key: str) -> bool:
        """Return whether the job file or an option of the command line sets exactly the key `key`, not only its
        parent."""
        return key in self.options or key in self.lines


class Progress:
    """The reports for a user while a run is prepared. Only a subclass shows them."""

    notices: tuple[Notice, ...] = ()
    """Notices that were shown, for the record."""

    def notice(self, text: str, id: str = PREPARATION, where: str | None = None) -> None:
        """Record and show the notice `text` about the preparation of a run, without the secrets in it. `id` is its
        kind, from state/notices.py. `where` is its subject, as in a finding."""
        shown = mask_text(text)
        self.notices = (*self.notices, notice_at(id, shown, where))
        self.show_notice(shown)

    def show_notice(self, text: str) -> None:
        """Show a notice. Do nothing unless a subclass overrides this."""

    def confirm_snapshot(self, directory: str, files: int, size: int) -> None:
        """Request the user's confirmation that a run shall get a copy of the whole `directory` as its code, if that
        contains more than code: `files` files of `size` bytes. Raise UsageError if the user refuses. Do nothing unless
        a subclass overrides this."""

    def step(self, what: str, done: int, total: int) -> None:
        """Report that a long step of the preparation, `what`, has processed `done` of `total` items. `total` 0 means
        that it is not known. Called often. Do nothing unless a subclass overrides this."""

    def transfer(self, what: str, done: int, total: int) -> None:
        """Report that the download `what` has received `done` of `total` bytes. `total` 0 means that it is not known.
        Called often. Do nothing unless a subclass overrides this."""

    def show_activity(self, what: str) -> None:
        """Show the user the activity `what`, which may take minutes. Called often. Do nothing unless a subclass
        overrides this."""


class StagingDirectory(NamedTuple):
    """The directory with the data that a job stages. `variables` name it to the libraries. `contents` is for the
    record: the origins and checksums of all data."""

    path: str
    variables: Mapping[str, str]
    contents: Mapping[str, Any]


class EnvironmentPack(NamedTuple):
    """A packed environment. `digest` is the file's sha256. `unpacked` is the number of bytes that it needs on a
    disk."""

    path: str
    digest: str
    size: int
    unpacked: int
    files: int
    notices: tuple[str, ...]


class SubmissionRequest(NamedTuple):
    """A job and everything else that a submission needs.

    origins the place where each key of the job was set
    argv    the words that the user typed, for the record
    after   runs that must end before the job starts
    fetched the data of the URIs of inputs, once they were fetched, by the inputs' names
    staged  the data that the job stages, once they are ready
    packed  the job's environment as one file, if the nodes unpack it
    image   the job's container image as one file, once it was fetched
    check   checks of the job's nodes and script before its ranks start: {mode, only, skip, asked}, as the wing
            `checks` reads it; empty: no checks; None: the cheap checks, where they are useful
    terminal  whether the job's only rank gets the terminal, or the streams, of this process
    debugger  the rank that must wait for a debugger
    dry     whether nothing is submitted: a problem of this machine alone is then only a notice
    `told`  notices about the job so far, for the record
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
    """A job on its compute, planned and checked. For an array it describes the first run; the other runs differ only in
    their inputs.

    job       job of the one run
    plan      plan of the one run, in the directory `paths`
    facts     facts that its compute reported about itself
    data      paths of the inputs' data for the ranks, by name
    environment  the environment of the ranks, if the job names one
    loaded    paths that they load by a name of this machine regardless of their command; None if no node needs to
              check them
    wrap      words that precede each rank's command
    elements  the varied inputs of each run
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
