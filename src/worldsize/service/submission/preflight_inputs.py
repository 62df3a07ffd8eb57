"""Checks that find the problems of a job's inputs before anything is fetched or created."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from worldsize.compute.base import CheckResult
from worldsize.errors import ConfigError
from worldsize.jobspec.job import COPYING_MODES, MOUNTING_MODES, Input, Job
from worldsize.jobspec.paths import is_fetchable, is_remote
from worldsize.jobspec.sizes import EXAMPLE, bytes_of
from worldsize.registry import find_module
from worldsize.service.providers import find_provider, provider
from worldsize.service.request import KeyOrigins

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


def check_inputs(job: Job, origins: KeyOrigins, hosted: bool = False) -> list[CheckResult]:
    """Return the problems of the job's data inputs (missing files, types, modes, checksums), as a list of CheckResult.
    With `hosted`, a service reads remote inputs and places local ones, so that only local paths are checked."""
    found: list[CheckResult] = []
    for name, value in job.inputs.items():
        if not isinstance(value, Input) or value.path is None:
            continue
        kept = [] if is_remote(value.path) else list(_check_kept(name, value.path, origins))
        if kept:
            found += [] if hosted else kept  # the service of the run may be the one that keeps it
        elif hosted:
            found += [] if is_remote(value.path) else _check_local(name, value, value.path, origins)
        else:
            check = _check_remote if is_remote(value.path) else _check_local
            found += check(name, value, value.path, origins)
            found += _check_fetched(name, value, origins)
            found += _check_mode(name, value, value.path, job, origins)
    return found


def _check_kept(name: str, path: str, origins: KeyOrigins) -> Iterator[CheckResult]:
    """Yield an error if the input's `path` is an output of a former run that a service keeps and that has not been
    fetched to this machine."""
    if f"{os.sep}outputs" not in path:
        return
    from worldsize.service.runs.kept_outputs import is_fetched, run_that_keeps

    run = None if is_fetched(path) else run_that_keeps(path, os.environ)
    if run is not None:
        what = f"{path} has not been fetched from run {run.id}"
        yield CheckResult("error", what, origins.of(f"inputs.{name}.path"), f"worldsize fetch {run.id}")


def _check_local(name: str, value: Input, path: str, origins: KeyOrigins) -> list[CheckResult]:
    at = origins.of(f"inputs.{name}.path")
    if not os.path.exists(path):
        what, hint = f"no such file or directory: {path}", None
    elif not os.access(path, os.R_OK | os.X_OK if os.path.isdir(path) else os.R_OK):
        what, hint = f"cannot be read: {path}", "correct its permissions"
    elif value.type == "uri_file" and os.path.isdir(path):
        what, hint = f"is a directory, but the input's type is uri_file: {path}", "set type: uri_folder"
    elif value.type == "uri_folder" and not os.path.isdir(path):
        what = f"is a file, but the input's type is uri_folder: {path}"
        return type_mismatch(name, what, "set type: uri_file", origins)
    else:
        return []
    return [CheckResult("error", what, at, hint)]


def _check_remote(name: str, value: Input, path: str, origins: KeyOrigins) -> list[CheckResult]:
    at = origins.of(f"inputs.{name}.path")
    if not is_fetchable(path):
        azure = find_module("wings.azure.mappings")
        what, hint = f"{path} cannot be read here", "download it, and name the local path"
        if azure is not None:
            what, hint = azure.reference_problem(path)
        return [CheckResult("error", what, at, hint)]
    try:
        return list(provider("inputs").check_remote(name, value, path, origins))
    except ConfigError as error:
        return [CheckResult("error", error.what, at, error.hint)]


def type_mismatch(name: str, what: str, hint: str, origins: KeyOrigins) -> list[CheckResult]:
    """Return the finding, in a list, for the input `name` whose type does not match its data. An input without a type
    is a uri_folder, so there is no finding if the job file does not set the type, and a notice if it cannot be known
    whether the type was set."""
    key = f"inputs.{name}.type"
    if origins.lines and not origins.is_set(key):
        return []
    level = "error" if origins.is_set(key) else "notice"
    return [CheckResult(level, what, origins.of(f"inputs.{name}.path"), hint, id="input-mode")]


def _check_fetched(name: str, value: Input, origins: KeyOrigins) -> Iterator[CheckResult]:
    """Yield findings about `sha256` (the checksum) and `max_size` (the size limit) of an input: values that are not
    valid or have no effect."""
    at = origins.of(f"inputs.{name}.sha256")
    if value.sha256 is not None and not _SHA256.fullmatch(value.sha256):
        yield CheckResult("error", "is not a checksum of 64 hexadecimal digits", at, "sha256sum FILE prints it")
    elif value.sha256 and value.path and os.path.isdir(value.path):
        yield CheckResult("error", "is for files, and the input is a directory", at, "leave it out")
    at = origins.of(f"inputs.{name}.max_size")
    if value.max_size is None:
        return
    if bytes_of(value.max_size) is None:
        yield CheckResult("error", f"is not a size: {value.max_size:.40}", at, EXAMPLE)
    elif not is_remote(value.path or ""):
        yield CheckResult(
            "notice", "is for downloads, and the input is read in place", at, "leave it out", id="input-mode"
        )


def _check_mode(name: str, value: Input, path: str, job: Job, origins: KeyOrigins) -> Iterator[CheckResult]:
    at = origins.of(f"inputs.{name}.mode")
    if value.mode not in (*COPYING_MODES, *MOUNTING_MODES):
        return
    if job.batch_script is not None:
        yield CheckResult(
            "notice", "a batch script's ranks read it in place: its own srun starts them", at, id="input-mode"
        )
    elif value.mode in MOUNTING_MODES and not is_remote(path) and os.path.exists(path):
        reader = find_provider("node_disk")
        why = reader.try_read_only([path]) if reader else ""
        if why:
            what = f"not read-only on this machine, nor on similar nodes: {why}"
            yield CheckResult("notice", what, at, id="input-mode")
