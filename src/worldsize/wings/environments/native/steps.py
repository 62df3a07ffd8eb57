"""Native builds: the steps of a spec, executed in its environment. The compiled packages are kept as wheels."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.digests import digest_of
from worldsize.common.named_tuple import Any
from worldsize.environment.activation import activation, expand_variables
from worldsize.environment.existing import inspect_prefix, python_version
from worldsize.errors import BuildError
from worldsize.jobspec.environment import BuildStep, EnvironmentSpec
from worldsize.plan.setup_script import module_line
from worldsize.wings.environments.inspect import machine
from worldsize.wings.environments.inspect.installed import installed_distributions, normalized_name
from worldsize.wings.environments.pip.install import index_options, input_path, pins, write_input
from worldsize.wings.environments.pip.uv import Uv, install
from worldsize.wings.environments.workspace.builder import STEPS_DIRECTORY, Build
from worldsize.wings.environments.workspace.programs import environ_after, run_bash

_OLD, _NEW = "HOROVOD_GPU_ALLREDUCE", "HOROVOD_GPU_OPERATIONS"
_FIRST_NEW = (0, 19, 2)
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)")
_COMPILES = re.compile(r"\s*Building ")
_SHOWN = 200
_EXCLUDED_NAMES = (".git", "__pycache__", "build", "dist")


StepRunner = Callable[[Build, EnvironmentSpec, Mapping[str, str], str], list[dict[str, Any]]]
"""Function that executes the build steps, with the environment's variables and the cache. It returns a record of the
steps, for the description."""


def check_prerequisites(spec: EnvironmentSpec, environ: Mapping[str, str], later: Sequence[str] = ()) -> None:
    """Raise BuildError with every prerequisite of the environment that is not met on this machine. Prerequisites for
    the tools in `later`, which are installed later, are not checked."""
    wanted = [each for each in spec.prerequisites if machine.tool_of(each) not in later]
    found = [said for said in (machine.problem(each, environ) for each in wanted) if said]
    if found:
        what = "a prerequisite is missing" if len(found) == 1 else f"{len(found)} prerequisites are missing"
        raise BuildError("{} on {}:\n  {}".format(what, os.uname().nodename, "\n  ".join(found)))


def run_steps(
    work: Build, spec: EnvironmentSpec, environ: Mapping[str, str], cache: str, sources: str | None = None
) -> list[dict[str, Any]]:
    """Execute the build steps of an environment in their order, after conda and pip. Return a record of each step, as
    JSON values. Raise BuildError.

    With `sources`, a directory of archives, nothing is downloaded: the packages that they need are installed already.
    """
    active = activated_environ(work, spec, environ)
    check_prerequisites(spec, active)
    done = []
    for number, step in enumerate(spec.steps, 1):
        if step.when and not machine.is_condition_met(step.when, active):
            work.report_step(f"build {number} of {len(spec.steps)}: {step.title} is skipped: only with {step.when}")
            done.append({"name": work.mask(step.title), "left_out": step.when})
            continue
        work.report_step(f"build {number} of {len(spec.steps)}: {step.title}")
        done.append(_run_step(work, step, active, cache, sources))
    return done


def activated_environ(work: Build, spec: EnvironmentSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a job in the environment that is being built, and also $PREFIX, which build
    steps may use."""
    found = activation(spec, inspect_prefix(work.prefix), environ)
    lines = [*map(module_line, spec.modules), *found.lines()]
    return {**environ_after(work, lines, environ, "activating"), "PREFIX": work.prefix}


def _run_step(
    work: Build, step: BuildStep, active: Mapping[str, str], cache: str, sources: str | None
) -> dict[str, Any]:
    own = {name: expand_variables(value, active) for name, value in step.variables.items()}
    variables, said = with_new_names(own, step.pip)
    if said:
        work.report_step(said)
    environ = {**active, **variables}
    found: dict[str, Any] = {"name": work.mask(step.title), "variables": sorted(variables)}
    if step.run is not None:
        directory = os.path.join(work.prefix, STEPS_DIRECTORY)
        os.makedirs(directory, exist_ok=True)
        run_bash(
            work,
            step.run.split("\n"),
            environ,
            step.title,
            directory,
            lambda line: work.report_progress(_masked_line(work, line)),
        )
        return found
    return {**found, **_compile(work, step, environ, variables, cache, sources)}


def _compile(
    work: Build,
    step: BuildStep,
    environ: Mapping[str, str],
    variables: Mapping[str, str],
    cache: str,
    sources: str | None,
) -> dict[str, Any]:
    """Compile and install the requirements of a build step from their sources. Return a record of the tools, and of
    what was compiled and installed. A later build with the same tools, requirements and variables finds the compiled
    wheels again. Installed packages are not changed."""
    python = python_version(work.prefix) or sys.version_info[:2]
    tools = {**machine.tool_versions(environ), "python": "{}.{}".format(*python)}
    wanted = [_cache_source_directory(expand_variables(each, environ), cache) for each in step.pip]
    names = [name for name in map(requirement_name, wanted) if name]
    key = wheel_key(tools, wanted, step.options, variables)
    before = installed_distributions(work.prefix)
    built: list[str] = []

    def report_line(line: str) -> None:
        if _COMPILES.match(line):
            built.append(line.strip().split(" ")[1])
        work.report_progress(f"{step.title}: {_masked_line(work, line)}")

    options = [*(word for name in names for word in ("--no-binary", name)), *step.options]
    lines = [*index_lines(work), *wanted]
    if sources is not None:
        options += ["--no-deps", "--offline"]
        lines = ["--no-index", "--find-links " + sources, *wanted]
    constraints = write_input(work, "constraints.txt", pins(before))
    path = write_input(work, "build-requirements.txt", lines)
    kept = {"UV_CACHE_DIR": os.path.join(cache, "wheels", key)}
    install(
        Uv(work, environ), work.prefix, path, ["--constraints", constraints, *options], kept, step.title, report_line
    )
    now = {(each.name, each.version) for each in installed_distributions(work.prefix)}
    new = sorted(now - {(each.name, each.version) for each in before})
    return {"key": key, "tools": tools, "compiled": built, "installed": ["{} {}".format(*each) for each in new]}


def wheel_key(
    tools: Mapping[str, str], wanted: Sequence[str], options: Sequence[str], variables: Mapping[str, str]
) -> str:
    """Return the name of the cache directory for compiled wheels: a digest of the tools' versions (compiler, MPI, CUDA,
    NCCL), the requirements, the options and the variables."""
    value = [sorted(tools.items()), sorted(wanted), list(options), sorted(variables.items())]
    return digest_of(json.dumps(value).encode("utf-8", "surrogateescape"))[:20]


def with_new_names(variables: Mapping[str, str], wanted: Sequence[str]) -> tuple[dict[str, str], str | None]:
    """Return a build step's variables with Horovod's old variable for one operation replaced by that for all
    operations, since newer versions refuse both together. They are unchanged if the requirements name an old version of
    Horovod. Also return a text that describes the change; None for no change."""
    found = dict(variables)
    if _OLD not in found or any(_is_old(each) for each in wanted):
        return found, None
    value = found.pop(_OLD)
    if _NEW in found:
        return found, f"{_OLD} is ignored: {_NEW}={found[_NEW]} is set"
    found[_NEW] = value
    return found, f"{_OLD}={value} is the old spelling of {_NEW}={value}, which is set"


def _is_old(requirement: str) -> bool:
    pinned = re.match(r"horovod(?:\[[^\]]*\])?==(\d+(?:\.\d+)*)", requirement)
    return pinned is not None and machine.version_numbers(pinned[1]) < _FIRST_NEW


def _cache_source_directory(requirement: str, cache: str) -> str:
    """Copy the directory of sources that `requirement` names to a path in `cache` that its content determines, so that
    a later build finds its wheels again. Return that path; return any other requirement unchanged. Raise BuildError if
    the directory changes while it is copied."""
    if not os.path.isdir(requirement):
        return requirement
    digest = _content_digest(requirement)
    place = os.path.join(cache, "sources", digest, os.path.basename(os.path.abspath(requirement)))
    if not os.path.isdir(place):
        part = f"{os.path.dirname(place)}.{os.urandom(4).hex()}.part"
        copy = os.path.join(part, os.path.basename(place))
        shutil.copytree(requirement, copy, symlinks=True, ignore=shutil.ignore_patterns(*_EXCLUDED_NAMES))
        if _content_digest(copy) != digest:
            shutil.rmtree(part, ignore_errors=True)
            raise BuildError("changed while it was copied", requirement, "try again")
        try:
            os.rename(part, os.path.dirname(place))
        except OSError:
            shutil.rmtree(part, ignore_errors=True)  # another build has created it meanwhile
    return place


def _content_digest(root: str) -> str:
    rows = []
    for directory, directories, names in os.walk(root):
        directories[:] = sorted(name for name in directories if name not in _EXCLUDED_NAMES)
        for name in sorted(names):
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    rows.append(f"{os.path.relpath(path, root)} {digest_of(file.read())}")
    return digest_of("\n".join(rows).encode("utf-8", "surrogateescape"))[:20]


def requirement_name(requirement: str) -> str | None:
    """Return the name of the package of a requirement that uv must build from source. None for a path, a URL or an
    option, for which uv needs no name."""
    if requirement.startswith(("/", "-")) or "://" in requirement.split(" @ ")[0]:
        return None
    found = _REQUIREMENT.match(requirement)
    return normalized_name(found[1]) if found else None


def index_lines(work: Build) -> list[str]:
    """Return the lines of the environment's pip requirements that name the sources of packages, such as `--index-url`.
    Empty if there are no pip requirements."""
    path = input_path(work, "requirements.txt")
    return index_options(["-r " + path]) if os.path.exists(path) else []


def _masked_line(work: Build, line: str) -> str:
    """Return the beginning of a line of a build step's output, with secrets masked. The line is cut last, since a part
    of a secret might not be recognised."""
    return work.mask(line.strip())[:_SHOWN]
