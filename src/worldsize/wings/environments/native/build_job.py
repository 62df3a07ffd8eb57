"""Build steps as a run of their own, on a node of the compute that has a GPU or the compiler that fits.

The run has one rank, `python -m MODULE ORDER`, on a node that sees the environment's directory as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from tempfile import TemporaryDirectory

from worldsize.common.atomic_files import read_json, write_json
from worldsize.common.named_tuple import Any
from worldsize.errors import BuildError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.job import Job, command_text
from worldsize.logs.tail import last_lines
from worldsize.plan.rank_environment import scrub
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import source_file
from worldsize.service.environments.lookup import Recipe
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState
from worldsize.store.find import find_run_paths
from worldsize.wings.environments.inspect.machine import tool_of
from worldsize.wings.environments.native.sources import fetch_sources
from worldsize.wings.environments.native.steps import StepRunner, run_steps
from worldsize.wings.environments.pip.requirements import referenced_variables
from worldsize.wings.environments.sources import non_default_fields, spec_from_json
from worldsize.wings.environments.workspace.builder import STEPS_DIRECTORY, Build
from worldsize.wings.environments.workspace.programs import without_active_environment

_LAST_LINES = 12
_PATIENCE = 60.0


SubmitFunction = Callable[[SubmissionRequest, Progress], RunPaths]
"""Function that submits a run."""


def make_remote_steps(config: Config, compute: str, recipe: Recipe, start: SubmitFunction) -> StepRunner:
    """Return a function that executes the build steps of an environment in a run on the compute. The sources that the
    steps need are downloaded on this machine first."""

    environ = recipe.environ

    def execute_steps(
        work: Build, spec: EnvironmentSpec, active: Mapping[str, str], cache: str
    ) -> list[dict[str, Any]]:
        own = os.path.join(work.prefix, STEPS_DIRECTORY)
        os.makedirs(own, exist_ok=True)
        with TemporaryDirectory(dir=own, ignore_cleanup_errors=True) as told:  # holds the order, with secrets
            order = _write_order(work, spec, active, cache, told)
            job = make_build_job(recipe, work.prefix, order)
            request = SubmissionRequest(job, config, compute, environ, os.getcwd(), argv=sys.argv)
            run = Run(start(request, Progress()), environ)
            work.left["run"] = run.id
            work.report_step(f"build steps wait for a node of {compute}: run {run.id}")
            _follow(run, work)
            found: list[dict[str, Any]] | None = read_json(os.path.join(told, "steps.json"))
        if found is None:
            raise BuildError("the run left no result", f"run {run.id}", f"worldsize logs {run.id}")
        return found

    return execute_steps


def _write_order(work: Build, spec: EnvironmentSpec, active: Mapping[str, str], cache: str, directory: str) -> str:
    order = os.path.join(directory, "order.json")
    said = {
        "prefix": work.prefix,
        "log": os.path.join(work.prefix, STEPS_DIRECTORY, "steps.log"),
        "spec": non_default_fields(spec),
        "cache": cache,
        "secrets": work.secrets,
        "sources": fetch_sources(work, spec, active, cache),
        "result": os.path.join(directory, "steps.json"),
    }
    write_json(order, said)
    return order


def make_build_job(recipe: Recipe, prefix: str, order: str) -> Job:
    """Return the job that executes an environment's build steps, which the file `order` describes: one rank, with a GPU
    if the prerequisites name CUDA. The nodes must see the Python that runs this process."""
    spec = recipe.spec
    asked = {*referenced_variables([*spec.pip, *([spec.file] if spec.file else [])]), *recipe.secrets}
    argv = (sys.executable, "-m", "worldsize.wings.environments.native.build_job", order)
    wants_gpu = any(tool_of(each) == "cuda" for each in spec.prerequisites)
    return Job(
        command=command_text(argv),
        argv=argv,
        display_name=f"build {os.path.basename(prefix)}",
        environment_variables={"PYTHONPATH": os.path.dirname(source_file())},
        slurm={"gpus_per_node": "1"} if wants_gpu else {},
        source="env build",
        secrets=tuple(name for name in sorted(asked) if name in recipe.environ),
    )


def _follow(run: Run, work: Build) -> None:
    """Wait for the end of the run that executes build steps, and report its last line as progress meanwhile. Cancel the
    run at an exception here, such as Ctrl-C. Raise BuildError if the run fails."""
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
    """Cancel the run of build steps that a killed builder has left behind, according to its `note`, and wait for its
    end. The run writes into the prefix, and has to end before the next build begins. Raise BuildError if it does not
    end in time."""
    if not note.get("run"):
        return
    try:
        run = Run(find_run_paths(config.home, str(note["run"])), environ)
        _end(run)
        run.wait(_PATIENCE)
    except WorldsizeError:
        pass  # the run no longer exists
    except TimeoutError:
        what = f"an earlier build is still running, and cannot be cancelled: run {note['run']}"
        raise BuildError(what, None, f"worldsize cancel {note['run']}") from None


def _end(run: Run) -> None:
    with suppress(WorldsizeError):  # the next builder finds the run by the lock's note
        run.cancel(now=True)


def main(argv: list[str], environ: Mapping[str, str]) -> int:
    os.umask(0o077)  # only the owner may write to an environment: others could change what runs execute
    order: dict[str, Any] = read_json(argv[0])
    if not os.path.isdir(order["prefix"]):
        print(f"this node does not see {order['prefix']}", file=sys.stderr)
        return 2
    work = Build(order["prefix"], lambda what: print(what, flush=True), order["log"])
    work.secrets = order["secrets"]
    try:
        done = run_steps(
            work,
            spec_from_json(order["spec"]),
            without_active_environment(scrub(environ)),
            order["cache"],
            order["sources"],
        )
    except WorldsizeError as error:
        print(str(error), file=sys.stderr)
        return error.exit_code
    write_json(order["result"], done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
