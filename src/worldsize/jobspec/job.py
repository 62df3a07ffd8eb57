"""The job: the user's request as frozen values, before any compute has processed it.

Nothing here is derived: the world size and the layout of ranks belong to planning. Values read from a file or from
Python are validated before they become a `Job`. Creating one directly takes microseconds and checks nothing. The values
are named tuples and use no schema library, whose import takes the time of a whole short run.
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.jobspec.distribution import Distribution

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RANKS = 1_000_000
"""Maximum number of ranks of a job. A larger number is a typing error."""

COPYING_MODES = ("download", "eval_download")
MOUNTING_MODES = ("ro_mount", "eval_mount")
"""Modes of inputs with a requirement: for copying modes a copy on each node's own disk, for mounting modes that nothing
is written to the data."""


class AssetTypes:
    """The types of inputs and outputs, as Azure ML names them."""

    URI_FILE = "uri_file"
    URI_FOLDER = "uri_folder"
    MLTABLE = "mltable"
    CUSTOM_MODEL = "custom_model"
    MLFLOW_MODEL = "mlflow_model"
    TRITON_MODEL = "triton_model"


def short_text(value: object, limit: int = 30) -> str:
    """Return `value` as Python writes it. Text is shortened to `limit` characters, and secrets in it are masked."""
    from worldsize.trust.secrets import mask_text

    text = mask_text(value) if isinstance(value, str) else value
    return repr(text if not isinstance(text, str) or len(text) <= limit else text[: limit - 1] + "…")


def _short_fields(value: Input | Output | Data) -> str:
    """Return the repr of an Input, Output or Data: a call such as Input(type='uri_file', path='x') with the fields that
    differ from their defaults, except the description."""
    named = zip(value._fields, value, strict=True)
    given = [each for each in named if each[0] != "description" and each[1] != value._field_defaults[each[0]]]
    return f"{type(value).__name__}({', '.join(f'{name}={short_text(each)}' for name, each in given)})"


class Input(NamedTuple):
    """Data that a job reads. `path` is local (absolute once the job is read) or a URI; None only if the input is
    optional. `sha256` is the required checksum of a file or an archive. `max_size`, such as "20 GiB", is the maximum
    size of what is fetched."""

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
    """The rules for the values of an input. `type` is "string", "number", "integer" or "boolean", or a type of data, as
    in `Input`. `min` and `max` are inclusive. `enum` are the allowed texts; empty if any is allowed. `optional` is
    whether it may have no value. `mode` is the mode of its data."""

    type: str = "string"
    optional: bool = False
    min: float | None = None
    max: float | None = None
    enum: tuple[str, ...] = ()
    mode: str | None = None
    description: str | None = None


class Output(NamedTuple):
    """A directory (or file) that a job writes. Without a path it is in the run directory."""

    type: str = AssetTypes.URI_FOLDER
    mode: str | None = None
    path: str | None = None
    name: str | None = None
    version: str | None = None
    description: str | None = None

    def __repr__(self) -> str:
        return _short_fields(self)


class Data(NamedTuple):
    """A named data asset. As an input value it means its path."""

    name: str | None = None
    version: str | None = None
    path: str | None = None
    type: str = AssetTypes.URI_FOLDER
    description: str | None = None

    def __repr__(self) -> str:
        return _short_fields(self)


class Resources(NamedTuple):
    """The number of nodes, and resources for the computes that support them. `shm_size` is text such as "2g"."""

    instance_count: int = 1
    instance_type: str | None = None
    shm_size: str | None = None
    docker_args: str | tuple[str, ...] | None = None
    locations: tuple[str, ...] = ()
    max_instance_count: int | None = None
    properties: Mapping[str, Any] = {}


class Limits(NamedTuple):
    """The limits of a job. `timeout` is the number of seconds after which the run is cancelled; None for no limit."""

    timeout: float | None = None


class Watchdog(NamedTuple):
    """The settings of the watchdog. `timeout` is the number of seconds without a sign of life of any rank after which
    the run is examined; 0: never. `action` is the reaction to a run that hangs, "report" or "stop"."""

    timeout: float = 300.0
    action: str = "report"


Literal = str | int | float | bool
InputValue = str | int | float | bool | Input


class Job(NamedTuple):
    """A job, independent of its target.

    argv             the exact words to execute without a shell; then `command` is their quoted text, for display
    batch_script     instead of both, the text of a Slurm batch script: the first node executes it once, and its
                     `srun` starts the ranks
    code             the directory to snapshot, absolute, or a URI; None for no code
    additional_includes  files and directories, absolute, that are put into the snapshot under their last names
    input_types      rules for the values of inputs; an input in it that `inputs` lacks needs a value
    conventions      the environment conventions to use; empty: all of them
    grace            seconds between TERM and KILL when ranks are stopped
    watchdog         the time after which a silent run is examined, and the reaction if it hangs
    hang_timeout     seconds of idleness after which the remaining ranks count as hanging, if others ended with 0;
                     0: never
    notify           the command that is notified of start, hang, failure and end; "": none; None: the configuration's
    preload          the modules that each node imports once for its ranks; or "auto" alone, for those of the script's
                     that are known to be safe, or "off"; empty: the compute's, else the configuration's
    strict           whether a problem that would be only a warning of a successful run is a failure
    threads          OMP_NUM_THREADS of each rank; None: planning chooses it
    bind             "auto" binds ranks to CPUs if that is sensible, "none" never does
    secrets          names of the submitter's variables that every rank gets, and that no file keeps after the run
    share            "group" opens the run directory to the group; None keeps it private
    share_gpus       whether several processes may share a GPU
    visible_devices  whether CUDA_VISIBLE_DEVICES is set per rank
    data_parallel    "split" or "scale": the command is a script for one process, trained data-parallel by all ranks
    virtual_gpus     for a rehearsal: the number of virtual GPUs of each node; None: the real ones
    offline          whether nodes reach no network: a rehearsal cuts it, elsewhere libraries are notified of it
    modules, setup   modules to load and shell lines to execute before the ranks start
    slurm            options of Slurm: the keys of jobspec/keys/slurm.py
    hpcpack          options of HPC Pack: the keys of jobspec/keys/hpcpack.py
    stage            data to download before the start; a wing reads it
    autotune         search for the best configuration by trials, one run for each; a wing reads it
    matrix           inputs that vary: one run for each combination of their values
    count            number of equal runs
    at_once          maximum number of runs at the same time, if there are several
    source           origin of the job: a file name, "command line" or "python"
    batch_source     the file in which the lines of `batch_script` are counted; empty if that is `source`
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
    count: int | None = None  # type: ignore[assignment]  # hides tuple.count, which no code calls
    at_once: int | None = None
    source: str = "python"
    batch_source: str = ""

    def __repr__(self) -> str:
        """Return the job in one line, without values that may contain secrets."""
        name = self.display_name or self.name
        what = self.command or (command_text(self.argv) if self.argv else self.batch_source or self.source)
        return f"Job({short_text(what)}{f', name={short_text(name)}' if name else ''}, nodes={self.resources[0]})"


ElementValues = Mapping[str, Literal]
"""The values of the varied inputs in one run of several."""


def has_search(job: Job) -> bool:
    """Return whether the job requests a search by trials (`autotune:`), with one run for each trial, rather than one
    run of a launcher that searches itself."""
    return job.autotune is not None and job.autotune.get("by") != "deepspeed"


def is_array_job(job: Job) -> bool:
    """Return whether the job requests an array of runs, even an array of one, rather than a single run."""
    return bool(job.matrix) or job.count is not None or has_search(job)


def element_values(job: Job) -> list[ElementValues]:
    """Return, for each run of an array job, the values of the inputs that its `matrix` varies, by name; a list with one
    mapping per run. The last name of the matrix varies fastest. Without a matrix the mappings are empty."""
    if not job.matrix:
        return [{}] * (job.count or 1)
    from itertools import product

    return [dict(zip(job.matrix, values, strict=True)) for values in product(*job.matrix.values())]


def element_job(job: Job, values: ElementValues) -> Job:
    """Return the job of one run of the array job `job`, with the inputs `values` of this run and without matrix and
    count."""
    return job._replace(inputs={**job.inputs, **values}, matrix={}, count=None, at_once=None)


def command_text(argv: tuple[str, ...]) -> str:
    """Return the words `argv` as one shell command with the same meaning: the `command` of a job that has an `argv`."""
    import shlex

    return shlex.join(argv)


class LoadedJob(NamedTuple):
    """A job that was read, with warnings for the user, and the line of every key, by its YAML path."""

    job: Job
    warnings: tuple[str, ...] = ()
    lines: Mapping[str, int] = {}

    def where(self, path: str) -> str:
        """Return the place of the key `path` in the job file, such as "job.yml:7" for "environment_variables.RANK". If
        the key has no line, return the place of its nearest parent that has one, else the name of the file."""
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        return f"{self.job.source}:{self.lines[path]}" if path else self.job.source
