"""Functions that write the contents of a run directory before its compute gets it: code, directories for outputs, the
hook, the agent, the record. With `share: group` the members of its group can read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from worldsize.common.atomic_files import link_or_copy, read_file, write_bytes, write_json
from worldsize.common.path_mapping import Mapped, to_node_path
from worldsize.errors import JobError, StorageError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.jobspec.paths import output_path
from worldsize.plan.launchers import external_launchers
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.submission.preflight import script_of_command
from worldsize.service.submission.rank_packages import packages_in, rank_modules, write_packages
from worldsize.state.notices import Notice
from worldsize.trust.procfs import withheld_variables, without_variables
from worldsize.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.snapshot.scan import Listing

_ENTER = stat.S_IRGRP | stat.S_IXGRP


def write_run_directory(
    request: SubmissionRequest, job: Job, plan: Plan, paths: RunPaths, progress: Progress
) -> str | None:
    """Write the files that the ranks need into the run directory: the code, the directories for the outputs, the hook,
    the agent. Return the digest of the code's snapshot; None if there is no code."""
    from worldsize.snapshot.agent_bundle import ensure_agent_bundle
    from worldsize.snapshot.git import start_git_diff

    if job.share == "group":
        _share_with_group(paths, progress)
    if job.code:
        environ = without_variables(request.environ, withheld_variables(job.secrets, request.environ))
        try:
            start_git_diff(job.code, paths.diff, environ)
        except StorageError as error:
            progress.notice(f"git: uncommitted changes are not recorded: {error}", "git")
    digest = _snapshot_code(request, job, paths, progress)
    for name, output in job.outputs.items():
        _make_output(output_path(paths, name, output), output.type, paths.outputs)
    cache = os.path.join(request.config.home, "cache")
    write_packages(packages_in(plan), paths, cache)
    if job.batch_script is not None:
        from worldsize.service.submission.batch_script import script_submission

        script_submission().write_files(job, paths)
    link_or_copy(ensure_agent_bundle(cache), paths.agent)
    return digest


def write_record(
    request: SubmissionRequest,
    job: Job,
    paths: RunPaths,
    digest: str | None,
    plan: Plan,
    also: Collection[str] = (),
    notices: Iterable[Notice] = (),
) -> None:
    """Write the run's record, which states how and from what it was made (job, command, code digest, environment), with
    secrets masked. `also` are texts that are secrets in addition to those of the plan. `notices` are the notices that
    were shown while the run was prepared."""
    from worldsize.jobspec.dump import job_tree
    from worldsize.plan.secrets_file import plan_secret_values
    from worldsize.snapshot.run_record import make_record
    from worldsize.trust.secrets import mask_values

    values = [*plan_secret_values(plan), *also]
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
    if request.config.computes[plan.compute].type == "local":  # the programs on other nodes are unknown
        record["python"]["ranks"] = ranks_python(plan, request.environ)
    if job.virtual_gpus is not None:
        record["rehearsal"] = {"virtual_gpus": job.virtual_gpus, "offline": job.offline}
    told = [*(Notice("configuration", text) for text in request.config.notices), *request.told, *notices]
    record["notices"] = [notice._asdict() for notice in told]
    record["start"] = {"way": plan.start.way, "reason": plan.start.reason, "modules": list(plan.start.modules)}
    if request.fetched:
        record["inputs"] = {name: found._asdict() for name, found in request.fetched.items()}
    if job.environment is not None:
        from worldsize.service.environments.lookup import environment_summary

        record["env"] = environment_summary(paths)
    if request.staged:
        record["stage"] = request.staged.contents
    write_json(paths.record, mask_values(record, values))


def ranks_python(plan: Plan, environ: Mapping[str, str]) -> str | None:
    """Return the path of the Python that ranks on this machine execute: the one that their command names, else the
    `python` on their PATH. None if there is none, or if lines of `setup` decide it."""
    if plan.setup:
        return None
    from worldsize.agent.posix.processes import find_program

    name = plan.argv[0] if os.path.basename(plan.argv[0]).startswith("python") else "python"
    inherited = plan.environment.get("PATH") or environ.get("PATH", os.defpath)
    try:
        return find_program(name, {"PATH": os.pathsep.join((*plan.path, inherited))})
    except OSError:
        return None


def write_launchers(plan: Plan, paths: RunPaths) -> None:
    """Write the source files of launchers from other packages, if the plan uses any, into the run directory, from where
    nodes load them. Raise PlanError, OSError."""
    for name, source in _launcher_files(plan).items():
        write_bytes(os.path.join(paths.root, name), source)


def _launcher_files(plan: Plan) -> Mapping[str, bytes]:
    names = external_launchers(plan)
    if not names:
        return {}
    from worldsize.plan.external_launchers import file_name, launcher_source

    return {file_name(name): launcher_source(name) for name in names}


def write_dependencies(request: SubmissionRequest, paths: RunPaths, mapped: Mapped) -> None:
    """Write a JSON file into the run directory that lists the runs that the run waits for, with their directories as
    the nodes name them."""
    from worldsize.plan.array import after_file

    rows = [
        {"run": after.run_id, "roots": [to_node_path(root, mapped) for root in after.roots], "any_end": after.any_end}
        for after in request.after
    ]
    write_json(after_file(paths.root), rows)


def _share_with_group(paths: RunPaths, progress: Progress) -> None:
    """Allow the group to enter the directories of the run, so that it can read the files that are written there from
    now on. Show a notice if a directory above keeps the group out."""
    for path in (paths.root, *paths.directories()):
        if os.path.isdir(path):
            _allow(path, _ENTER)
    closed = closed_parent(paths)
    if closed:
        progress.notice(
            f"share: the group cannot enter {closed} (name a runs_dir that it can enter: worldsize.toml)",
            "group-access",
        )


def _own_directories(config: Config) -> list[str]:
    """Return the configured directories for runs, environments and data of all computes, which a snapshot of code
    excludes. None of them is code, and a group that may read a run's code may not read them."""
    named = [config.envs_dir]
    for each in config.computes.values():
        named += [each.runs_dir, each.envs_dir, each.data_dir]
    return [path for path in named if path]


def holds_everything(code: str, environ: Mapping[str, str]) -> bool:
    """Return whether a code directory is a place that contains far more than code: the root, a home directory, or a
    directory for temporary files."""
    places = ("/", "/tmp", "/var/tmp", "/root", "/home", environ.get("HOME"), environ.get("TMPDIR"))
    return os.path.realpath(code) in [os.path.realpath(place) for place in places if place]


def _snapshot_code(request: SubmissionRequest, job: Job, paths: RunPaths, progress: Progress) -> str | None:
    """Copy the job's code into the run directory as a snapshot. Return its digest; None if there is no code. Raise
    JobError if the snapshot leaves out the script of the command."""
    if job.code is None and not job.additional_includes:
        return None
    from worldsize.snapshot.snapshot import take_snapshot
    from worldsize.store.runs import objects_dir

    runs_dir = os.path.dirname(paths.root)
    excluded = [runs_dir, request.config.home, *_own_directories(request.config)]
    tick = partial(progress.step, "snapshot")

    def confirm(listing: Listing) -> None:
        if job.code is not None and holds_everything(job.code, request.environ):
            size = sum(status.st_size for _, status in listing.files)
            progress.confirm_snapshot(job.code, len(listing.files), size)

    snapshot = take_snapshot(
        job.code, paths, objects_dir(runs_dir), excluded, tick=tick, includes=job.additional_includes, confirm=confirm
    )
    if job.share == "group":
        share_code(paths)
    for warning in snapshot.warnings:
        progress.notice("snapshot: " + warning, "code-left-out")
    if job.batch_script is not None:
        from worldsize.service.submission.batch_script import script_submission

        for name in script_submission().link_left_out_paths(job, paths):
            progress.notice(f"snapshot: leaves out {name}: the script finds it where it is", "code-left-out")
    script = script_of_command(job)
    if script and not os.path.isabs(script) and not os.path.exists(os.path.join(paths.code, script)):
        raise left_out_error(job.code or "", script)
    return snapshot.digest


def left_out_error(code: str, script: str) -> JobError:
    """Return the JobError for a `script` that is in the directory `code` but not in its snapshot. The error names the
    ignore files that may exclude the script, or states that the script is in a directory that is never code."""
    from worldsize.snapshot.ignore_rules import AML, GIT

    folders = [os.path.dirname(os.path.normpath(script))]
    while folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    places = [os.path.join(code, folder, name) for folder in folders for name in (GIT, AML)]
    found = [path for path in places if os.path.exists(path)]
    what = f"{script} exists, but the snapshot leaves it out"
    if found:
        return JobError(what, " or ".join(found), "take it out of the ignore file")
    hint = (
        "move it out of directories that are never part of the code: environments, caches, results, and "
        "outputs and logs of a run"
    )
    return JobError(what, os.path.join(code, script), hint)


def _make_output(path: str, kind: str, outputs: str) -> None:
    """Make the directory of a job's output at `path`, or for a uri_file the directory that contains it. A directory
    below the run's `outputs` gets the mode of `outputs`. Any other is made as the user's own `mkdir` would make it."""
    directory = os.path.dirname(path) if kind == "uri_file" else path
    if os.path.commonpath((directory, outputs)) != outputs:
        os.makedirs(directory, exist_ok=True)
        return
    os.makedirs(directory, mode=0o700, exist_ok=True)
    os.chmod(directory, os.stat(outputs).st_mode & 0o777)


def embedded_files(job: Job, plan: Plan, home: str) -> Mapping[str, bytes]:
    """Return the files of a run directory that are embedded in the submitted script, as a mapping of name in the run
    directory to content: job.yml, plan.json, the agent and the modules for the ranks."""
    from worldsize.service.secrets import masked_job_text, split_secrets
    from worldsize.snapshot.agent_bundle import ensure_agent_bundle

    script: Mapping[str, bytes] = {}
    if plan.batch is not None:
        from worldsize.service.submission.batch_script import script_submission

        script = script_submission().files(job, plan.batch.virtual)
    return {
        **script,
        **_launcher_files(plan),
        "job.yml": masked_job_text(job, plan).encode(),
        "plan.json": split_secrets(plan)[0].to_json().encode(),
        **{name: read_file(source) for name, source in rank_modules(packages_in(plan)).items()},
        "agent.pyz": read_file(ensure_agent_bundle(os.path.join(home, "cache"), small=True)),
    }


def share_code(paths: RunPaths) -> None:
    """Allow the group to read all files of the run's snapshot of the code, and to enter its directories."""
    for directory, names, files in os.walk(paths.code):
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                _allow(path, _ENTER)
        for name in files:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISREG(mode):
                _allow(path, _ENTER if mode & stat.S_IXUSR else stat.S_IRGRP)


def closed_parent(paths: RunPaths) -> str | None:
    """Return the uppermost directory above the run directory that the user's group cannot enter; None if there is
    none."""
    closed = None
    path = os.path.dirname(paths.root)
    while path != os.path.dirname(path):
        if not os.stat(path).st_mode & (stat.S_IXGRP | stat.S_IXOTH):
            closed = path
        path = os.path.dirname(path)
    return closed


def _allow(path: str, bits: int) -> None:
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | bits)
