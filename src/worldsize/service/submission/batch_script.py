"""Interfaces of the wing for batch scripts: the parts of a submission that are specific to a batch script."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Protocol, cast
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.batch_script import WHAT
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module

_SUBMISSION = "wings.batch_scripts.submission"
_CHECK = "wings.batch_scripts.preflight"


class ScriptSubmission(Protocol):
    """The functions that make the plan and the run's files for a job that has a `batch_script`."""

    def argv(self, job: Job, paths: RunPaths) -> tuple[str, ...]:
        """Return the words of the command that starts the job's batch script from its copy in the run directory."""

    def with_script(self, plan: Plan, job: Job, facts: ComputeFacts) -> Plan:
        """Return `plan` with the job's batch script in place of a command. Pure."""

    def files(self, job: Job, virtual: bool | None) -> Mapping[str, bytes]:
        """Return the files that a run directory contains for a batch script, as a mapping of name to content. `virtual`
        selects those for virtual nodes (True), for a real cluster (False), or for both (None)."""

    def write_files(self, job: Job, paths: RunPaths) -> None:
        """Write the files that a batch script needs, for virtual nodes and for a real cluster, into the run directory.
        Raise OSError if that fails."""

    def link_left_out_paths(self, job: Job, paths: RunPaths) -> list[str]:
        """Create links, in the run's snapshot of the code, to paths that the batch script names and that the snapshot
        leaves out. Return their names. Raise OSError if that fails."""


class ScriptCheck(Protocol):
    """A module that checks jobs with a batch script before anything is created."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """Return the problems that the job's batch script would have, as a list of CheckResult, each with its line in
        the script."""

    def option_origin(self, job: Job, key: str) -> str | None:
        """Return the place (line) of the option in the job's batch script that is equivalent to the job key `key` of
        `slurm:`; None if there is none."""


def script_submission() -> ScriptSubmission:
    """Return the wing's implementation of ScriptSubmission, which submits batch scripts. Raise ConfigError if this
    installation is without the wing."""
    return cast(ScriptSubmission, load_module(_SUBMISSION, WHAT))


def script_check() -> ScriptCheck:
    """Return the wing's implementation of ScriptCheck, which checks batch scripts. Raise ConfigError if this
    installation is without the wing."""
    return cast(ScriptCheck, load_module(_CHECK, WHAT))
