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
        """Return the job that the script in the file `path` describes when it is submitted in `cwd`. `code` is another
        directory to run in."""

    def with_script_values(
        self, nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems
    ) -> dict[str, Any]:
        """Return the values of a job file's keys, with those added that only its `batch_script` contains."""

    def sbatch_options(self, job: Job) -> list[tuple[str, str | None]]:
        """Return the script's options for sbatch by their long names, with those replaced that the job itself sets."""

    def gpu_count(self, job: Job) -> int:
        """Return the number of GPUs on each node that a job with a script requests; 0 for none."""


def looks_like_batch_script(name: str, head: str) -> bool:
    """Return whether a file is a batch script, from its name and its beginning."""
    if name.endswith((".slurm", ".sbatch")):
        return True
    return head.startswith("#!") and any(line.startswith(MAGIC) for line in head.split("\n"))


def script_reader() -> ScriptReader:
    """Return the wing's reader of batch scripts. Raise ConfigError if this installation has no such wing."""
    return cast(ScriptReader, load_module(_READER, WHAT))
