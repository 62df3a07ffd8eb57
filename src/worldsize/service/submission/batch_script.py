"""What of a submission is a batch script's own, as far as a wing knows it."""

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
    """What is made of a job that has a `batch_script`: its plan, and the files of its run."""

    def argv(self, job: Job, paths: RunPaths) -> tuple[str, ...]:
        """Return the words that start the script, which lies in its run directory."""

    def with_script(self, plan: Plan, job: Job, facts: ComputeFacts) -> Plan:
        """`plan` with the script in place of a command. Pure."""

    def files(self, job: Job, virtual: bool | None) -> Mapping[str, bytes]:
        """Return the files that a run directory holds for the script, by name: on virtual nodes, on a real cluster, or,
        for None, on both."""

    def write_files(self, job: Job, paths: RunPaths) -> None:
        """Write the files of both into a run directory. OSError."""

    def link_left_out_paths(self, job: Job, paths: RunPaths) -> list[str]:
        """Make links, in the run's snapshot, to paths that the script names and that the snapshot leaves out. Returns
        their names. OSError."""


class ScriptCheck(Protocol):
    """A module that looks at such jobs before anything is created."""

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        """What would go wrong with the script: findings, each with its line."""

    def option_origin(self, job: Job, key: str) -> str | None:
        """Return the line of the script whose option says what a key of `slurm:` would say; None where none does."""


def script_submission() -> ScriptSubmission:
    """Return the wing's functions for submitting batch scripts. ConfigError where this installation knows no batch
    scripts."""
    return cast(ScriptSubmission, load_module(_SUBMISSION, WHAT))


def script_check() -> ScriptCheck:
    """Return the wing's functions for checking batch scripts. ConfigError as for `script_submission`."""
    return cast(ScriptCheck, load_module(_CHECK, WHAT))
