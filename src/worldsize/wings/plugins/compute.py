"""A wrapper for a compute of another package. If the package's code raises, or returns a wrong value, the error is one
sentence that names the package. This module is loaded only for such computes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from worldsize.common.named_tuple import cast
from worldsize.compute.base import (
    CheckResult,
    Compute,
    ComputeFacts,
    EmbeddedFiles,
    Handle,
    IdleCallback,
    Submission,
)
from worldsize.entry_points import ExternalPart
from worldsize.errors import WorldsizeError
from worldsize.jobspec.config.compute_keys import external_part
from worldsize.jobspec.job import Job
from worldsize.plan.handle import handle_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation

_PURE = ("facts", "check", "render")
_METHODS = (*_PURE, "submit", "observe", "pause", "cancel", "end_remains")
_PHASES = ("queued", "running", "ended", "absent", "unknown")
_CLAIMED = {
    "nodes": ("nodes", "group_noun"),
    "exec": ("execute", "shell"),
    "requeue": ("requeue",),
    "explain": ("explain",),
    "usage": ("usage",),
}
"""The attributes that a compute with these capabilities must have (compute/capabilities.py)."""


def make_external_compute(kind: str, function: str, make: Callable[[], Any], where: str | None) -> Compute:
    """Return a checking wrapper around the compute that `make` returns; `make` calls the function named `function` of
    the other package's module. `kind` is the type of the compute, and `where` its place in the configuration. Raise
    ConfigError if `make` does not return a compute."""
    part = external_part(kind)._replace(where=where)
    made = part.call(function, make)
    owed = ("name", "capabilities", *_METHODS)
    missing = part.call(function, lambda: [each for each in owed if not hasattr(made, each)])
    if missing:
        raise part.problem(f"failed: {function} returned a {type(made).__name__}, which lacks {', '.join(missing)}")
    return ExternalCompute(part, made)


class _Callback:
    """A wrapper for a function of worldsize that another package's compute calls. It keeps the exception of the
    function, which is not a failure of the compute."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self.raised: BaseException | None = None

    def __call__(self) -> Any:
        try:
            return self._function()
        except BaseException as error:
            self.raised = error
            raise


class ExternalCompute:
    """A wrapper that calls the compute of another package and checks its return values. In addition to the errors of
    `Compute`, `facts`, `check` and `render` raise ConfigError, and the methods that create or concern a native job
    raise WorldsizeError."""

    def __init__(self, part: ExternalPart, compute: Any) -> None:
        self._part = part
        self._later = part._replace(error=WorldsizeError)
        self._compute = compute
        self.name: str = compute.name
        self.capabilities: frozenset[str] = self._read_capabilities(compute)

    def _read_capabilities(self, compute: Any) -> frozenset[str]:
        claimed = self._part.call("capabilities", lambda: compute.capabilities, _are_words, "a set of words")
        owed = (name for each in sorted(claimed) for name in _CLAIMED.get(each, ()))
        missing = [name for name in owed if not hasattr(compute, name)]
        if missing:
            raise self._part.problem(f"lacks {', '.join(missing)}, which its capabilities claim")
        return frozenset(claimed)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute `name` of the other package's compute, which belongs to one of its capabilities. A
        method is wrapped, so that its failure is a WorldsizeError."""
        found = getattr(self._compute, name)
        if not callable(found):
            return found
        return lambda *given, **named: self._later.call(name, partial(found, *given, **named))

    def _call(self, name: str, given: Sequence[Any], is_right: Callable[[Any], bool], wanted: str) -> Any:
        part = self._part if name in _PURE else self._later
        try:
            return part.call(name, lambda: getattr(self._compute, name)(*given), is_right, wanted)
        except WorldsizeError:
            for each in given:
                if isinstance(each, _Callback) and each.raised is not None:
                    raise each.raised from None
            raise

    def facts(self, job: Job) -> ComputeFacts:
        return cast(ComputeFacts, self._call("facts", (job,), _is(ComputeFacts), "a ComputeFacts"))

    def check(self, job: Job, plan: Plan) -> list[CheckResult]:
        found = self._call("check", (job, plan), _is_list_of(CheckResult), "a list of CheckResult")
        return cast("list[CheckResult]", found)

    def render(self, job: Job, plan: Plan, paths: RunPaths, files: EmbeddedFiles) -> Submission:
        rendered = self._call("render", (job, plan, paths, _Callback(files)), _is(Submission), "a Submission")
        return cast(Submission, rendered)

    def submit(self, submissions: Sequence[Submission]) -> list[Handle]:
        def are_handles(made: Any) -> bool:
            return _is_list_of(Mapping, len(submissions))(made) and all(map(self._is_handle, made, submissions))

        wanted = f"a list with one handle for each of {len(submissions)} runs, as docs/how-to/extending.md has them"
        return cast("list[Handle]", self._call("submit", (submissions,), are_handles, wanted))

    def _is_handle(self, handle: Mapping[str, Any], submission: Submission) -> bool:
        """Return whether the handle that the other package's compute returned for a submission can be stored in a JSON
        file, and identifies its job when it is read from there."""
        try:
            kept = json.loads(json.dumps(dict(handle)))
            return bool(handle_of(RunPaths(submission.paths.root), kept)["type"] == self._part.name)
        except (TypeError, ValueError):
            return False

    def observe(self, handles: Sequence[Handle], idle: IdleCallback | None = None) -> list[Observation]:
        def are_observations(made: Any) -> bool:
            return _is_list_of(Observation, len(handles))(made) and all(each.phase in _PHASES for each in made)

        given = (handles,) if idle is None else (handles, _Callback(idle))
        wanted = f"a list with one Observation for each of {len(handles)} handles"
        return cast("list[Observation]", self._call("observe", given, are_observations, wanted))

    def pause(self, age: float, runs: int = 1, queued: bool = False) -> float:
        return cast(float, self._call("pause", (age, runs, queued), _is_duration, "a number of seconds"))

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        self._call("cancel", (handles, now), lambda made: True, "")

    def end_remains(self, handle: Handle) -> int:
        return cast(int, self._call("end_remains", (handle,), _is(int), "a number of processes"))


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda made: isinstance(made, kind)


def _is_list_of(kind: type, number: int | None = None) -> Callable[[Any], bool]:
    def is_right(made: Any) -> bool:
        held = isinstance(made, (list, tuple)) and all(isinstance(each, kind) for each in made)
        return held and number in (None, len(made))

    return is_right


def _are_words(made: Any) -> bool:
    return isinstance(made, (set, frozenset)) and all(isinstance(each, str) for each in made)


def _is_duration(made: Any) -> bool:
    return isinstance(made, (int, float)) and 0 <= made < float("inf")
