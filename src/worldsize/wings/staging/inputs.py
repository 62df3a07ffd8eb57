"""The inputs that a job names by URI, or with a checksum: they are fetched and checked on this machine."""

from __future__ import annotations

from worldsize.compute.base import CheckResult
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.job import Input
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.sizes import bytes_of
from worldsize.service.request import KeyOrigins, PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_directory, data_inputs
from worldsize.service.submission.preflight_inputs import type_mismatch
from worldsize.wings.staging.archives import SUFFIXES, is_archive
from worldsize.wings.staging.fetch import DataStore, file_name, is_web
from worldsize.wings.staging.http import display_url


def check_remote(name: str, value: Input, path: str, origins: KeyOrigins) -> list[CheckResult]:
    """Check the job's input `name`, which is a URI, without querying its server. `path` is an address that may be
    fetched. Return the problems as a list of CheckResult."""
    at = origins.of(f"inputs.{name}.path")
    if is_web(path):
        if value.type != "uri_folder" or is_archive(file_name(path)):
            return []
        what = f"{display_url(path)} is one file, but the input's type is uri_folder"
        hint = f"set type: uri_file, or name an archive ({', '.join(SUFFIXES[:3])})"
        return type_mismatch(name, what, hint, origins)
    from worldsize.wings.staging.object_stores import find_missing_support

    lacks = find_missing_support(path)
    return [CheckResult("error", f"{display_url(path)}: {lacks.what}", at, lacks.hint)] if lacks else []


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """Fetch the data that the inputs of the planned job `dry` name by URI, and check local files with a checksum.
    Return the request with the fetched data. Raise UsageError and WorldsizeError, which name the input."""
    wanted = [(name, value) for name, value in data_inputs(dry.job) if is_remote(value.path or "") or value.sha256]
    data = DataStore(data_directory(request.config, dry.plan.compute), progress)
    found = {}
    for name, value in wanted:
        assert value.path is not None
        try:
            if is_remote(value.path):
                folder = value.type == "uri_folder"
                most = bytes_of(value.max_size) if value.max_size else None
                found[name] = data.fetch(value.path, folder, value.sha256, f"inputs.{name}", most)
            else:
                data.verify(value.path, value.sha256 or "", f"inputs.{name}")
        except WorldsizeError as error:
            raise _error_at_input(error, request, name) from None
    return request._replace(fetched=found)


def _error_at_input(error: WorldsizeError, request: SubmissionRequest, name: str) -> WorldsizeError:
    """Return an error of the same kind as `error`, located at the key of the job's input `name` that caused it: its
    path, `sha256` or `max_size`."""
    said = next((key for key in ("max_size", "sha256") if key in error.what), "path")
    key = f"inputs.{name}.{said}"
    what = f"{error.where}: {error.what}" if error.where else error.what
    kind = type(error) if isinstance(error, UsageError) else WorldsizeError
    return kind(what, request.origins.of(key), error.hint)
