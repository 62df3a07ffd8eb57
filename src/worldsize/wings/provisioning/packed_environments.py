"""Packed environments that each node unpacks on its own disk. Each content is packed once; a note next to the file
describes it.

NAME-0123456789abcdef.tar.gz         next to an environment that was built here; in `packs/` for any other
NAME-0123456789abcdef.tar.gz.json    the note: its digest and size, valid while the file is unchanged
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from worldsize.common.atomic_files import open_regular_file, printable_text, read_object, storage_error, write_json
from worldsize.common.file_lock import acquire
from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.environment.existing import ExistingEnvironment
from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.job import Job
from worldsize.plan.node_disk import NodeDiskPlan, PackedEnvironment
from worldsize.plan.plan import Plan
from worldsize.service.environments.lookup import Environment, image_notices
from worldsize.service.request import EnvironmentPack, PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_directory
from worldsize.store.content_store import TransferProgress, file_digest
from worldsize.trust.directories import make_private_directory
from worldsize.trust.owners import is_ours
from worldsize.trust.projects import danger_of_file
from worldsize.wings.provisioning.agent.pack_format import ENVIRONMENT_MARK, is_sha256
from worldsize.wings.provisioning.agent.unpack import description_of
from worldsize.wings.provisioning.pack import SUFFIX, pack


def packed_environment(spec: EnvironmentSpec, path: str) -> Environment:
    """Return the Environment for the packed environment file `path`. Raise NotFound if there is no such file,
    UsageError if it is no packed environment or `spec` needs a build."""
    if spec.needs_build:
        raise UsageError("nothing can be installed into a packed environment", path, "name its prefix instead")
    return Environment(spec, environment_of_pack(path), notices=image_notices(spec), archive=path)


def with_packed_environment(
    plan: Plan,
    job: Job,
    environment: Environment,
    packed: EnvironmentPack | None,
    settings: ComputeSettings,
    facts: ComputeFacts,
) -> tuple[Plan, list[CheckResult]]:
    """Return `plan`, changed so that each node unpacks the environment on its own disk, and an empty list. If the job
    cannot use an unpacked environment, return the unchanged plan and a list with the error as a CheckResult. `packed`
    is None if the environment is not packed yet."""
    why = _find_obstacle(job, environment)
    if why is not None:
        return plan, [why]
    assert environment.prefix is not None
    found = packed or EnvironmentPack(environment.archive or "", "", 0, 0, 0, ())
    path = to_node_path(found.path, facts.mapped)
    archive = PackedEnvironment(path, found.digest, found.size, environment.prefix)
    local = (plan.local or NodeDiskPlan(settings.local_dir or ""))._replace(archive=archive)
    interpreter = None if environment.archive else plan.interpreter
    return plan._replace(local=local, interpreter=interpreter), []


def _find_obstacle(job: Job, environment: Environment) -> CheckResult | None:
    if job.batch_script is not None:
        what = "a batch script's own srun starts its ranks: they cannot use an unpacked environment"
        return CheckResult("error", what, "environment", "name one that the nodes see, with distribute: shared")
    if environment.prefix is None:
        what = "only a named environment can be copied to the nodes' disks"
        return CheckResult("error", what, "environment.distribute", "name it: python: PATH")
    return None


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """Pack the environment of the planned job `dry` into a file, or describe its packed file, if the nodes unpack it.
    Return the request with the EnvironmentPack; unchanged if nodes unpack none. Raise UsageError, StorageError."""
    environment, local = dry.environment, dry.plan.local
    if environment is None or local is None or local.archive is None:
        return request
    try:
        return request._replace(packed=_make_pack(request, dry, environment, progress))
    except OSError as error:
        raise storage_error(error, error.filename or "") from None


def _make_pack(
    request: SubmissionRequest, dry: PlannedJob, environment: Environment, progress: Progress
) -> EnvironmentPack:
    if environment.archive:
        return describe_pack(environment.archive)
    assert environment.existing is not None
    found = environment.existing
    if environment.recipe is not None:
        return pack_once(found, found.prefix + SUFFIX, progress)
    name = f"{os.path.basename(found.prefix)}-{content_key(found.prefix)}{SUFFIX}"
    directory = os.path.join(data_directory(request.config, dry.plan.compute), "packs")
    make_private_directory(directory)
    return pack_once(found, os.path.join(directory, name), progress)


def environment_of_pack(path: str) -> ExistingEnvironment:
    """Return an ExistingEnvironment that describes the packed environment file `path`. Its prefix is ENVIRONMENT_MARK,
    since the real path is known only when a node unpacks it. Raise NotFound if there is no such file, UsageError if it
    is no packed environment."""
    try:
        with open(open_regular_file(path), "rb") as file:
            value = description_of(file.read)
    except FileNotFoundError:
        raise NotFound(f"no such packed environment: {printable_text(path)}") from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from None
    except ValueError as error:
        raise UsageError(f"is not a packed environment: {error}", path, "worldsize env pack makes one") from None
    version: Any = value.get("python")
    known = isinstance(version, list) and len(version) == 2 and all(isinstance(each, int) for each in version)
    return ExistingEnvironment(ENVIRONMENT_MARK, str(value["kind"]), (version[0], version[1]) if known else None)


def describe_pack(path: str) -> EnvironmentPack:
    """Return an EnvironmentPack with the digest and size of the packed environment file `path`. The file itself is read
    only if its note is missing or outdated; a new note is then written. Raise OSError."""
    status = os.stat(path)
    note = _read_note(path)
    if (note.get("size"), note.get("mtime_ns")) == (status.st_size, status.st_mtime_ns) and is_sha256(
        note.get("digest")
    ):
        return EnvironmentPack(path, note["digest"], status.st_size, note.get("unpacked", 0), note.get("files", 0), ())
    found = EnvironmentPack(path, file_digest(path), status.st_size, 0, 0, ())
    _write_note(found)
    return found


def pack_once(found: ExistingEnvironment, path: str, news: TransferProgress) -> EnvironmentPack:
    """Pack the environment `found` as the file `path`, unless that exists, and return its EnvironmentPack. Only one
    process packs; others wait for it. `news` receives the progress and notices. Raise UsageError, StorageError."""
    if os.path.exists(path):
        return describe_pack(path)
    what = f"packing {os.path.basename(found.prefix)}"
    lock = acquire(path + ".lock", lambda _: news.transfer(f"another worldsize process is {what}", 0, 0))
    assert lock is not None
    try:
        if os.path.exists(path):
            return describe_pack(path)
        news.notice(f"{what}, once, for the nodes' own disks")
        made = pack(found, path, lambda done, total: news.transfer(what, done, total))
        _write_note(made)
        for each in made.notices:
            news.notice("environment: " + each, "environment")
        return made
    finally:
        os.unlink(path + ".lock")
        lock.release()


def content_key(prefix: str) -> str:
    """Compute a key that changes when a file below `prefix` is added, removed or written. Only file names, sizes and
    times are read, no contents."""
    digest = hashlib.sha256(os.fsencode(prefix))
    for line in _statuses(prefix):
        digest.update(line)
    return digest.hexdigest()[:16]


def _statuses(directory: str) -> Iterator[bytes]:
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name == "__pycache__":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _statuses(entry.path)
        else:
            status = entry.stat(follow_symlinks=False)
            yield b"%s %d %d\n" % (os.fsencode(entry.path), status.st_size, status.st_mtime_ns)


def _read_note(path: str) -> dict[str, Any]:
    """Read the note next to the packed environment file `path`, and return its values by name. Return an empty mapping
    if the note is missing, or if another user could have written it: the note decides what nodes unpack and execute."""
    note = path + ".json"
    try:
        if not is_ours(os.lstat(note)) or danger_of_file(note, os.stat(note)):
            return {}
    except OSError:
        return {}
    return read_object(note)


def _write_note(found: EnvironmentPack) -> None:
    value = {**found._asdict(), "mtime_ns": os.stat(found.path).st_mtime_ns}
    try:
        write_json(found.path + ".json", value)
    except OSError:
        pass  # another user's directory: the pack is read again next time
