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
        """Return the words of the command that starts the script, which is located in the run directory."""

    def with_script(self, plan: Plan, job: Job, facts: ComputeFacts) -> Plan:
        """Return `plan` with the script in place of a command. Pure."""

    def files(self, job: Job, virtual: bool | None) -> Mapping[str, bytes]:
        """Return the files that a run directory contains for the script, by name. `virtual` selects those for virtual
        nodes (True), for a real cluster (False), or for both (None)."""

    def write_files(self, job: Job, paths: RunPaths) -> None:
        """Write the files for virtual nodes and for a real cluster into the run directory. Raise OSError if that
        fails."""

    def link_left_out_paths(self, job: Job, paths: RunPaths) -> list[str]:
        """Create links, in the run's snapshot, to paths that the script names and that the snapshot leaves out. Return
        their names. Raise OSError if that fails."""


class ScriptCheck(Protocol):
    """A module that checks jobs with a batch script before anything is created."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """Return the problems that the script would have, each with its line."""

    def option_origin(self, job: Job, key: str) -> str | None:
        """Return the line of the script with the option that is equivalent to a key of `slurm:`; None if there is
        none."""


def script_submission() -> ScriptSubmission:
    """Return the wing's functions for submitting batch scripts. Raise ConfigError if this installation is without the
    wing."""
    return cast(ScriptSubmission, load_module(_SUBMISSION, WHAT))


def script_check() -> ScriptCheck:
    """Return the wing's functions for checking batch scripts. Raise ConfigError if this installation is without the
    wing."""
    return cast(ScriptCheck, load_module(_CHECK, WHAT))
