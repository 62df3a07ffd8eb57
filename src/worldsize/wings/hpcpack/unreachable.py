"""A compute that is not asked: of a run that somebody else made, or whose server no configuration here names."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.compute.base import CheckResult, ComputeFacts, EmbeddedFiles, Handle, IdleCallback, Submission
from worldsize.errors import UsageError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PAUSE = 1.0
"""Seconds between two looks at the files, which cost little; nobody else is asked."""


class UnreachableCompute:
    """Of its runs nothing is known but what their files say; whatever else is wanted of it is a UsageError that tells
    `why`."""

    capabilities: frozenset[str] = frozenset()

    def __init__(self, name: str, why: str, hint: str) -> None:
        self.name = name
        self._why = why
        self._hint = hint

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        return [Observation("unknown", message=self._why)] * len(handles)

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return _PAUSE

    def end_remains(self, handle: Handle) -> int:
        return 0

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        self._refuse()

    def facts(self, job: Job) -> ComputeFacts:
        self._refuse()

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        return [CheckResult("error", self._why, None, self._hint)]

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        self._refuse()

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"compute {self.name} is not asked: {self._why}", None, self._hint)
