"""The decision whether a job's ranks start warm: forked from one process of each node that has imported their
modules."""

from __future__ import annotations

import os

from worldsize.jobspec.job import Job, command_text
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import NO_PYTHON, Plan, RankStart
from worldsize.wings.warm_start.judgement.gpus import has_gpus
from worldsize.wings.warm_start.judgement.python_command import PythonCommand, python_command
from worldsize.wings.warm_start.safe_modules import SAFE

_MOST_SOURCE = 4 << 20


def rank_start(
    job: Job, plan: Plan, preload: tuple[str, ...], image: str | None = None, here: bool = False
) -> RankStart:
    """Return the RankStart of the plan: whether ranks start warm (forked from a process with preloaded modules), with
    which modules, and why. `preload` is the job's key; the script is read if it is "auto". `image` is the container
    image in which ranks start. `here` means that they start on this machine."""
    doubt = "preload is off" if preload == ("off",) else _doubt_about_plan(plan, image)
    if doubt:
        return RankStart(reason=doubt)
    command = python_command(plan.argv)
    if command is None:
        return RankStart(reason=NO_PYTHON)
    if preload != ("auto",):
        return RankStart(preload, False, "they are named")
    if plan.gpus:
        return RankStart(reason="the job's nodes have GPUs")
    if here and has_gpus():
        return RankStart(reason="this machine has GPUs")
    return _start_by_script(job, command)


def _doubt_about_plan(plan: Plan, image: str | None) -> str:
    if not launcher_facts(plan.launcher).by_agent:
        return f"{plan.launcher} starts the ranks"
    if plan.terminal:
        return "the rank has a terminal"
    if plan.debugger is not None:
        return "a rank waits for a debugger"
    if plan.data_parallel or plan.rehearsal:
        return "torch is changed as ranks start"
    return "ranks start in a container image" if image else ""


def _start_by_script(job: Job, command: PythonCommand) -> RankStart:
    """Return the RankStart that follows from the imports at the top of the script of `command`: warm with these modules
    if they are known to be safe, otherwise plain, with the reason."""
    said = command.script or command.module
    if said not in (command_text(job.argv) if job.argv else job.command):
        return RankStart(reason=f"an input names {said}")  # an array's runs share one plan, and may have other scripts
    path = _script_path(job, command)
    if path is None:
        return RankStart(reason=f"the source of {said} is not in the code")
    name = command.script or os.path.basename(path)
    nothing = RankStart(reason=f"{name} imports no module at its top that is known to be safe")
    try:
        with open(path, "rb") as file:
            source = file.read(_MOST_SOURCE)
        if not any(each.encode() in source for each in SAFE):
            return nothing
        from worldsize.wings.warm_start.script_imports import preloadable  # loads a parser: 4 ms

        modules = preloadable(source)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
        return RankStart(reason=f"{name} cannot be read: {error}")
    return RankStart(modules, True, f"{name} imports them") if modules else nothing


def _script_path(job: Job, command: PythonCommand) -> str | None:
    """Return the path on this machine of the script, or of the module's file, that `command` executes; None if the
    job's code does not contain it."""
    if command.script:
        path = os.path.join(job.code or "/", command.script)
        return path if os.path.isfile(path) and (job.code or os.path.isabs(command.script)) else None
    if not job.code:
        return None
    base = os.path.join(job.code, *command.module.split("."))
    return next((path for path in (base + ".py", os.path.join(base, "__main__.py")) if os.path.isfile(path)), None)
