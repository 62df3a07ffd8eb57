"""Build steps as a run of their own, on a node of the compute: where there is a GPU, or the compiler that fits."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from worldsize.common.atomic_files import read_json, write_json
from worldsize.environment.recipe import Recipe
from worldsize.errors import BuildError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job, command_text
from worldsize.logs.tail import last_lines
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import source_file
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState
from worldsize.store.find import find_run_paths
from worldsize.wings.environments.native.sources import fetch_sources
from worldsize.wings.environments.native.toolchain import tool_of
from worldsize.wings.environments.pip.requirements import referenced_variables
from worldsize.wings.environments.pipeline import StepRunner, non_default_fields
from worldsize.wings.environments.workspace.builder import STEPS_DIRECTORY, Build

_LAST_LINES = 12
_PATIENCE = 60.0


SubmitFunction = Callable[[SubmissionRequest, Progress], RunPaths]
"""Submits a run."""


def make_remote_steps(config: Config, compute: str, environ: Mapping[str, str], start: SubmitFunction) -> StepRunner:
    """Steps that are executed on the compute, by a run; what they need is downloaded here first."""
    return partial(_execute_steps, partial(_start, config, compute, environ, start), compute, environ)


def _execute_steps(
    start: Callable[[Job], Run],
    compute: str,
    environ: Mapping[str, str],
    work: Build,
    recipe: Recipe,
    active: Mapping[str, str],
) -> list[dict[str, Any]]:
    own = os.path.join(work.prefix, STEPS_DIRECTORY)
    os.makedirs(own, exist_ok=True)
    order, result = os.path.join(own, "order.json"), os.path.join(own, "steps.json")
    try:
        return _execute_order(start, compute, environ, work, recipe, active, order, result)
    finally:
        for path in (order, result):  # with what the steps are told, secrets too
            with suppress(FileNotFoundError):
                os.unlink(path)


def _execute_order(
    start: Callable[[Job], Run],
    compute: str,
    environ: Mapping[str, str],
    work: Build,
    recipe: Recipe,
    active: Mapping[str, str],
    order: str,
    result: str,
) -> list[dict[str, Any]]:
    write_json(
        order,
        {
            "prefix": work.prefix,
            "log": os.path.join(os.path.dirname(order), "steps.log"),
            "spec": non_default_fields(recipe.spec),
            "cache": recipe.cache,
            "secrets": work.secrets,
            "sources": fetch_sources(work, recipe.spec, active, recipe.cache),
            "result": result,
        },
    )
    asked = {
        *referenced_variables([*recipe.spec.pip, *([recipe.spec.file] if recipe.spec.file else [])]),
        *recipe.secrets,
    }
    wanted = make_build_job(recipe, work.prefix, order)._replace(
        secrets=tuple(name for name in sorted(asked) if name in environ)
    )
    run = start(wanted)
    work.left["run"] = run.id
    work.report_step(f"build steps wait for a node of {compute}: run {run.id}")
    _follow(run, work)
    found: list[dict[str, Any]] | None = read_json(result)
    if found is None:
        raise BuildError("the run left no result", f"run {run.id}", f"worldsize logs {run.id}")
    return found


def make_build_job(recipe: Recipe, prefix: str, order: str) -> Job:
    """One rank, with a GPU where the spec asks for one. The nodes have to see the Python that runs us."""
    argv = (sys.executable, "-m", "worldsize.wings.environments.native.program", order)
    wants_gpu = any(tool_of(each) == "cuda" for each in recipe.spec.prerequisites)
    return Job(
        command=command_text(argv),
        argv=argv,
        display_name=f"build {os.path.basename(prefix)}",
        environment_variables={"PYTHONPATH": os.path.dirname(source_file())},
        slurm={"gpus_per_node": "1"} if wants_gpu else {},
        source="env build",
    )


def _start(config: Config, compute: str, environ: Mapping[str, str], start: SubmitFunction, wanted: Job) -> Run:
    request = SubmissionRequest(wanted, config, compute, environ, os.getcwd(), argv=sys.argv)
    return Run(start(request, Progress()), environ)


def _follow(run: Run, work: Build) -> None:
    """Until its end, its last line as news; whoever gives up waiting ends the run. BuildError where it fails."""
    try:
        status = run.overall(run.follow(_make_reporter(run, work)))
    except BaseException:
        _end(run)
        raise
    if status.state != RunState.SUCCEEDED:
        lines = [line for line in last_lines(run.paths.rank_log(0), _LAST_LINES) if line.strip()]
        what = "\n  ".join(lines) or status.message or status.state
        hint = f"worldsize logs {run.id}; the nodes have to see {work.prefix} and {sys.executable}"
        raise BuildError(f"the build steps failed:\n  {what}", f"run {run.id}", hint)


def _make_reporter(run: Run, work: Build) -> Callable[[], bool]:
    last = ""

    def show() -> bool:
        nonlocal last
        lines = last_lines(run.paths.rank_log(0), 1)
        if not lines or lines[-1] == last:
            return False
        last = lines[-1]
        work.report_progress(work.mask(last.strip())[:200])
        return True

    return show


def end_abandoned_run(config: Config, environ: Mapping[str, str], note: Mapping[str, Any]) -> None:
    """A builder was killed while its steps were a run, which writes into the prefix: it has to end before the next
    begins. BuildError where it does not."""
    if not note.get("run"):
        return
    try:
        run = Run(find_run_paths(config.home, str(note["run"])), environ)
        _end(run)
        run.wait(_PATIENCE)
    except (WorldsizeError, TimeoutError) as error:
        if isinstance(error, TimeoutError):
            what = f"an earlier build goes on, and cannot be ended: run {note['run']}"
            raise BuildError(what, None, f"worldsize cancel {note['run']}") from None


def _end(run: Run) -> None:
    try:
        run.cancel(now=True)
    except WorldsizeError:
        pass  # it will be found by its lock
