"""Slurm batch scripts as jobs: the test that distinguishes a script from a job file, and the interface of the wing that
reads scripts."""

from __future__ import annotations

from worldsize.common.named_tuple import Any, Protocol, cast
from worldsize.jobspec.job import Job, LoadedJob
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.registry import load_module

MAGIC = "#SBATCH"
WHAT = "running batch scripts"
_READER = "wings.batch_scripts.script.job"


class ScriptReader(Protocol):
    """A module that reads batch scripts and never executes them. Each function raises JobError, with file and line, for
    what sbatch would refuse."""

    def load_script(self, path: str, cwd: str, code: str | None = None) -> LoadedJob:
        """Return the job, with warnings and line numbers, that the batch script in the file `path` describes when it is
        submitted in the directory `cwd`. `code` is another directory to run in."""

    def with_script_values(
        self, nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems
    ) -> dict[str, Any]:
        """Return `values`, the values of a job file's keys, with those added that only the text of its `batch_script`
        contains. `nodes` are the same keys as they are written, for messages in `report`."""

    def sbatch_options(self, job: Job) -> list[tuple[str, str | None]]:
        """Return the sbatch options of the job's batch script as (long name, value), with those replaced that the job
        itself sets. The value is None for an option without one."""

    def gpu_count(self, job: Job) -> int:
        """Return the number of GPUs on each node that a job with a script requests; 0 for none."""


def looks_like_batch_script(name: str, head: str) -> bool:
    """Return whether a file is a Slurm batch script: its name `name` ends in .slurm or .sbatch, or its beginning `head`
    is a script's with an #SBATCH line."""
    if name.endswith((".slurm", ".sbatch")):
        return True
    return head.startswith("#!") and any(line.startswith(MAGIC) for line in head.split("\n"))


def script_reader() -> ScriptReader:
    """Return the module that reads Slurm batch scripts (a ScriptReader). Raise ConfigError if this installation does
    not include it."""
    return cast(ScriptReader, load_module(_READER, WHAT))
