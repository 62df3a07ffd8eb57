"""The job: what a user asks for, as frozen values that no compute has touched yet.

Nothing here is derived: the world size and the layout of ranks belong to planning. Values read from a file or from
Python are validated before they become a `Job`; building one directly costs microseconds and checks nothing.
Named tuples rather than a schema library: importing one costs as much as a whole short run.
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RANKS = 1_000_000
"""No job has more ranks; a larger number is a slip of the keyboard."""

COPYING_MODES = ("download", "eval_download")
MOUNTING_MODES = ("ro_mount", "eval_mount")
"""Modes of inputs that ask for something: a copy on each node's own disk; no writing to it."""


class AssetTypes:
    """The types of inputs and outputs, as Azure ML names them."""

    URI_FILE = "uri_file"
    URI_FOLDER = "uri_folder"
    MLTABLE = "mltable"
    CUSTOM_MODEL = "custom_model"
    MLFLOW_MODEL = "mlflow_model"
    TRITON_MODEL = "triton_model"


def short_text(value: object, limit: int = 30) -> str:
    """Return the value as Python writes it, in one short line and without secrets."""
    from worldsize.trust.secrets import mask_text

    text = mask_text(value) if isinstance(value, str) else value
    return repr(text if not isinstance(text, str) or len(text) <= limit else text[: limit - 1] + "…")


def _short_fields(value: Input | Output | Data) -> str:
    """Return a call that makes such a value, of the fields that are not as by default; but for its description."""
    named = zip(value._fields, value, strict=True)
    given = [each for each in named if each[0] != "description" and each[1] != value._field_defaults[each[0]]]
    return f"{type(value).__name__}({', '.join(f'{name}={short_text(each)}' for name, each in given)})"


class Input(NamedTuple):
    """Data that a job reads. `path` is local (absolute once the job is read) or a URI; None only when optional.
    `sha256` is what a file, or an archive, must have; `max_size`, such as "20 GiB", what is fetched may be at most."""

    type: str = AssetTypes.URI_FOLDER
    path: str | None = None
    mode: str | None = None
    optional: bool = False
    description: str | None = None
    sha256: str | None = None
    max_size: str | None = None

    def __repr__(self) -> str:
        return _short_fields(self)


class InputType(NamedTuple):
    """What the values of an input have to be. `type` is "string", "number", "integer" or "boolean", or what data is,
    as in `Input`; `min` and `max` are inclusive; `enum` are the texts allowed, empty for any; `optional`: it may have
    none; `mode` is that of its data."""

    type: str = "string"
    optional: bool = False
    min: float | None = None
    max: float | None = None
    enum: tuple[str, ...] = ()
    mode: str | None = None
    description: str | None = None


class Output(NamedTuple):
    """A directory (or file) that a job writes; without a path the run directory holds it."""

    type: str = AssetTypes.URI_FOLDER
    mode: str | None = None
    path: str | None = None
    name: str | None = None
    version: str | None = None
    description: str | None = None

    def __repr__(self) -> str:
        return _short_fields(self)


class Data(NamedTuple):
    """A named data asset; as an input value it stands for its path."""

    name: str | None = None
    version: str | None = None
    path: str | None = None
    type: str = AssetTypes.URI_FOLDER
    description: str | None = None

    def __repr__(self) -> str:
        return _short_fields(self)


class Resources(NamedTuple):
    """How many nodes; the rest is for the computes that know such things. `shm_size` is text such as "2g"."""

    instance_count: int = 1
    instance_type: str | None = None
    shm_size: str | None = None
    docker_args: str | tuple[str, ...] | None = None
    locations: tuple[str, ...] = ()
    max_instance_count: int | None = None
    properties: Mapping[str, Any] = {}


class Limits(NamedTuple):
    """`timeout` in seconds, after which the run is cancelled; None for no limit."""

    timeout: float | None = None


class Watchdog(NamedTuple):
    """`timeout`: seconds without a sign of life of any rank after which the run is looked at; 0: never. `action`: what
    is done about a run that hangs, "report" or "stop"."""

    timeout: float = 300.0
    action: str = "report"


Literal = str | int | float | bool
InputValue = str | int | float | bool | Input


class Job(NamedTuple):
    """One job, target-independent.

    argv             the exact words to execute without a shell; then `command` is their quoted text, for display
    batch_script     in place of both, the text of a Slurm batch script: the first node executes it once, and its
                     `srun` starts the ranks
    code             the directory to snapshot, absolute, or a URI; None for no code
    additional_includes  files and directories, absolute, that are put into the snapshot under their last names
    input_types      what the values of inputs have to be; an input of these that `inputs` lacks needs a value
    conventions      narrow the environment conventions to these; empty: all of them
    grace            seconds between TERM and KILL when ranks are stopped
    watchdog         after how long a silent run is looked at, and what is done if it hangs
    hang_timeout     seconds of idleness after which ranks that are left, others having ended with 0, hang; 0: never
    notify           the command that is told of start, hang, failure and end; "": none; None: the configuration's
    preload          the modules that each node imports once for its ranks; or "auto" alone, for those of the script's
                     that are known to be safe, or "off"; empty: the compute's, else the configuration's
    strict           what else would be a warning beside a success is a failure
    threads          OMP_NUM_THREADS of each rank; None leaves it to planning
    bind             "auto" binds ranks to CPUs where that is sensible, "none" never does
    secrets          names of the submitter's variables that every rank gets, and that no file keeps after the run
    share            "group" opens the run directory to the group; None keeps it private
    share_gpus       several processes may share a GPU
    visible_devices  CUDA_VISIBLE_DEVICES is set per rank
    data_parallel    "split" or "scale": the command is a script for one process, trained data-parallel by all ranks
    virtual_gpus     a rehearsal: so many GPUs of each node that there are not; None: what there is
    offline          nodes reach no network: in a rehearsal it is cut, elsewhere libraries are told
    modules, setup   modules to load and shell lines to execute before the ranks start
    slurm            what the job says of Slurm: the keys of jobspec/keys/slurm.py
    hpcpack          what the job says of HPC Pack: the keys of jobspec/keys/hpcpack.py
    stage            what is downloaded before the start; a wing reads it
    autotune         find the best configuration by trials, one run for each; a wing reads it
    matrix           inputs that vary: one run for each combination of their values
    count            so many equal runs
    at_once          of several runs, at most so many at the same time
    source           where the job came from: a file name, "command line" or "python"
    batch_source     where the lines of `batch_script` are counted; empty where that is `source`
    """

    command: str = ""
    argv: tuple[str, ...] = ()
    batch_script: str | None = None
    code: str | None = None
    additional_includes: tuple[str, ...] = ()
    type: str = "command"
    name: str | None = None
    display_name: str | None = None
    experiment_name: str | None = None
    description: str | None = None
    tags: Mapping[str, str] = {}
    properties: Mapping[str, str] = {}
    environment: str | Mapping[str, Any] | None = None
    environment_variables: Mapping[str, str] = {}
    distribution: Distribution | None = None
    compute: str | None = None
    resources: Resources = Resources()
    limits: Limits = Limits()
    inputs: Mapping[str, InputValue] = {}
    input_types: Mapping[str, InputType] = {}
    outputs: Mapping[str, Output] = {}
    queue_settings: Mapping[str, Any] = {}
    services: Mapping[str, Any] = {}
    identity: Mapping[str, Any] = {}
    parent_job_name: str | None = None
    conventions: tuple[str, ...] = ()
    grace: float = 10.0
    watchdog: Watchdog = Watchdog()
    hang_timeout: float = 300.0
    notify: str | None = None
    preload: tuple[str, ...] = ()
    strict: bool = False
    threads: int | None = None
    bind: str = "auto"
    secrets: tuple[str, ...] = ()
    share: str | None = None
    share_gpus: bool = False
    visible_devices: bool = False
    data_parallel: str | None = None
    virtual_gpus: int | None = None
    offline: bool = False
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    slurm: Mapping[str, Any] = {}
    hpcpack: Mapping[str, Any] = {}
    stage: Mapping[str, Any] = {}
    autotune: Mapping[str, Any] | None = None
    matrix: Mapping[str, tuple[Literal, ...]] = {}
    count: int | None = None  # type: ignore[assignment]  # hides tuple.count, which nobody asks a job
    at_once: int | None = None
    source: str = "python"
    batch_source: str = ""

    def __repr__(self) -> str:
        """One line, without values that may hold secrets."""
        name = self.display_name or self.name
        what = self.command or (command_text(self.argv) if self.argv else self.batch_source or self.source)
        return f"Job({short_text(what)}{f', name={short_text(name)}' if name else ''}, nodes={self.resources[0]})"


ElementValues = Mapping[str, Literal]
"""The inputs of one run of several, of those that vary."""


def has_search(job: Job) -> bool:
    """Return whether it asks for trials, and not for one run of a launcher that searches itself."""
    return job.autotune is not None and job.autotune.get("by") != "deepspeed"


def is_array_job(job: Job) -> bool:
    """Return whether it asks for an array of runs, be it of one, and not for a run of its own."""
    return bool(job.matrix) or job.count is not None or has_search(job)


def element_values(job: Job) -> list[ElementValues]:
    """Return the inputs of each run, in the order written: the last name of a matrix varies fastest; of a run of its
    own none vary."""
    if not job.matrix:
        return [{}] * (job.count or 1)
    from itertools import product

    return [dict(zip(job.matrix, values, strict=True)) for values in product(*job.matrix.values())]


def element_job(job: Job, values: ElementValues) -> Job:
    """Return the job of one of the runs."""
    return job._replace(inputs={**job.inputs, **values}, matrix={}, count=None, at_once=None)


def command_text(argv: tuple[str, ...]) -> str:
    """Return the words as a shell command that means the same: the `command` of a job that has an `argv`."""
    import shlex

    return shlex.join(argv)


class LoadedJob(NamedTuple):
    """A job as read: what to tell the user, and the line of every key, by its YAML path."""

    job: Job
    warnings: tuple[str, ...] = ()
    lines: Mapping[str, int] = {}

    def where(self, path: str) -> str:
        """Return the place of a key, such as "job.yml:7" for "environment_variables.RANK"; of its nearest parent
        otherwise."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return f"{self.job.source}:{self.lines[path]}" if path else self.job.source
