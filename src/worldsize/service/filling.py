"""What a run directory holds before its compute gets it: code, places for outputs, the hook, the agent, the record."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from worldsize.errors import JobError, StorageError
from worldsize.plan.files import link, write_json, write_text
from worldsize.plan.launch import Plan
from worldsize.plan.mapping import there
from worldsize.plan.paths import RunPaths
from worldsize.service.inrank import packages_of, place_packages
from worldsize.service.planning import output_path
from worldsize.service.preflight import script_of
from worldsize.service.request import Progress, Request
from worldsize.service.travel import HOOK, hook_source
from worldsize.spec.job import Job
from worldsize.trust.procfs import closed, without
from worldsize.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.plan.mapping import Mapped
    from worldsize.spec.config import Config


def lay_out(request: Request, job: Job, paths: RunPaths, progress: Progress) -> str | None:
    """What the ranks find: the code, whose digest is returned, places for the outputs, the hook, the agent."""
    from worldsize.environment.bundle import agent_bundle
    from worldsize.environment.git import start_git_diff

    if job.share == "group":
        _share(paths, progress)
    if job.code:
        environ = without(request.environ, closed(job.secrets, request.environ))
        try:
            start_git_diff(job.code, paths.diff, environ)
        except StorageError as error:
            progress.notice("git: uncommitted changes are not recorded: %s" % error)
    digest = _snapshot(job, paths, request.config, progress)
    for name, output in job.outputs.items():
        _make_output(output_path(paths, name, output), output.type, paths.outputs)
    cache = os.path.join(request.config.home, "cache")
    _place_inrank(job, paths, cache)
    link(agent_bundle(cache), paths.agent)
    return digest


def write_record(
    request: Request, job: Job, paths: RunPaths, digest: str | None, plan: Plan, also: Collection[str] = ()
) -> None:
    """`also`: texts that are secrets, besides those of the plan."""
    from worldsize.environment.record import make_record
    from worldsize.plan.hidden import values_of
    from worldsize.spec.dump import job_tree
    from worldsize.trust.secrets import mask_values

    values = [*values_of(plan), *also]
    record = make_record(
        VERSION,
        mask_values(job_tree(job), values),
        mask_values(list(request.argv), values),
        request.environ,
        request.cwd,
        job.code or "",
        digest,
        plan.created,
        shared=job.share == "group",
        secrets=job.secrets,
    )
    if job.virtual_gpus is not None:
        record["rehearsal"] = {"virtual_gpus": job.virtual_gpus, "offline": job.offline}
    if request.fetched:
        record["inputs"] = {name: found._asdict() for name, found in request.fetched.items()}
    if job.environment is not None:
        from worldsize.service.environment_build import summary

        record["env"] = summary(paths)
    if request.staged:
        record["stage"] = request.staged.contents
    write_json(paths.record, mask_values(record, values))


def write_after(request: Request, paths: RunPaths, mapped: Mapped) -> None:
    """What it waits for, with the directories as the nodes call them."""
    from worldsize.plan.array import after_file

    rows = [
        {"run": after.run_id, "roots": [there(root, mapped) for root in after.roots], "any_end": after.any_end}
        for after in request.after
    ]
    write_json(after_file(paths.root), rows)


def _share(paths: RunPaths, progress: Progress) -> None:
    from worldsize.service.share import closed_parent, open_directories

    open_directories(paths)
    closed = closed_parent(paths)
    if closed:
        progress.notice("share: the group cannot enter %s (name a runs_dir that it can: worldsize.toml)" % closed)


def _own_directories(config: Config) -> list[str]:
    """Where worldsize keeps runs, environments and data, for all computes: none of it is code, and the group that may
    read a run's code may not read it."""
    named = [config.envs_dir]
    for each in config.computes.values():
        named += [each.runs_dir, each.envs_dir, each.data_dir]
    return [path for path in named if path]


def _snapshot(job: Job, paths: RunPaths, config: Config, progress: Progress) -> str | None:
    """The digest of the code as it is now in the run, None for no code."""
    if job.code is None:
        return None
    from worldsize.environment.snapshot import take_snapshot
    from worldsize.store.runs import objects_dir

    def tick(done: int, total: int) -> None:
        progress.step("snapshot", done, total)

    runs_dir = os.path.dirname(paths.root)
    excluded = [runs_dir, config.home, *_own_directories(config)]
    snapshot = take_snapshot(job.code, paths, objects_dir(runs_dir), excluded=excluded, tick=tick)
    if job.share == "group":
        from worldsize.service.share import open_code

        open_code(paths)
    for warning in snapshot.warnings:
        progress.notice("snapshot: " + warning)
    if job.batch_script is not None:
        from worldsize.service.batch import link_left_out

        for name in link_left_out(job, paths):
            progress.notice("snapshot: leaves out %s: the script finds it where it is" % name)
    script = script_of(job)
    if script and not os.path.isabs(script) and not os.path.exists(os.path.join(paths.code, script)):
        raise JobError(
            "%s exists, but the snapshot leaves it out" % script,
            os.path.join(job.code, ".amlignore or .gitignore"),
            "take it out of the ignore file",
        )
    return snapshot.digest


def _make_output(path: str, kind: str, outputs: str) -> None:
    """One below the run's `outputs` has the mode of that; any other is made as the user's own `mkdir` would make it."""
    directory = os.path.dirname(path) if kind == "uri_file" else path
    if os.path.commonpath((directory, outputs)) != outputs:
        os.makedirs(directory, exist_ok=True)
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chmod(directory, os.stat(outputs).st_mode & 0o777)


def _place_inrank(job: Job, paths: RunPaths, cache: str) -> None:
    """The exception hook, where every rank's Python finds it, with bytecode: compiling it would cost each rank 2 ms;
    a batch script."""
    from worldsize.environment.bundle import bytecode

    source = hook_source()
    hook = os.path.join(paths.root, HOOK)
    with open(source) as file:
        write_text(hook, file.read())
    compiled = os.path.join(paths.inrank, "__pycache__")
    os.mkdir(compiled, 0o700)
    name = "sitecustomize.%s.pyc" % sys.implementation.cache_tag
    link(bytecode(source, cache), os.path.join(compiled, name))
    packages = packages_of(job)
    if packages:
        place_packages(packages, paths, cache)
    if job.batch_script is not None:
        from worldsize.service.batch import place_script

        place_script(job, paths)
