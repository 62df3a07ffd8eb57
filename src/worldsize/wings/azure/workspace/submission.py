"""Submission of a run as a job of the workspace, exactly once. The job's name is the run's id, and creating it again
changes nothing."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.common.atomic_files import write_bytes
from worldsize.compute.base import EmbeddedFiles, Handle, Submission
from worldsize.errors import SubmitAgain, WorldsizeError
from worldsize.jobspec.job import Input, Job
from worldsize.plan.array import array_of, read_array
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.azure.agent.job_node import KEY_FILE, PROGRAMS_FILE
from worldsize.wings.azure.storage.assets import resolve_asset
from worldsize.wings.azure.storage.blobs import Notice, Progress
from worldsize.wings.azure.storage.code_asset import upload_code
from worldsize.wings.azure.storage.content import folder_content
from worldsize.wings.azure.storage.data_asset import upload_input
from worldsize.wings.azure.storage.datastore import DEFAULT_DATASTORE, open_datastore
from worldsize.wings.azure.storage.environment_asset import register_environment
from worldsize.wings.azure.storage.outputs import former_output
from worldsize.wings.azure.workspace.agent_job import agent_request
from worldsize.wings.azure.workspace.body import ResolvedNames, request_body
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.credentials import StorageLogin
from worldsize.wings.azure.workspace.observe import native_name
from worldsize.wings.azure.workspace.service_job import exported_job
from worldsize.wings.azure.workspace.settings import WorkspaceSettings

_UNKNOWN = "(once it is uploaded)"
_KEY_BYTES = 32


class Request(NamedTuple):
    """The data that a submission needs in addition to its plan and its paths."""

    job: Job
    files: EmbeddedFiles


def preview(request: Request, plan: Plan, workspace: WorkspaceSettings) -> str:
    """Return the text of the HTTP request that creates the run's job in the Azure ML workspace (the PUT line and the
    JSON body), with placeholders for the names that only the workspace can assign."""
    job = _asked_job(request, workspace)
    data = {path: f"{path} {_UNKNOWN}" for path in _local_paths(job)}
    names = ResolvedNames(
        code=_UNKNOWN if job.code else None,
        environment=_UNKNOWN,
        compute=_compute_id(workspace),
        data=data,
    )
    files = f"the run's files {_UNKNOWN}"
    body = agent_request(job, plan, names, files) if workspace.agent else request_body(job, names)
    line = f"PUT {workspace.endpoint}{workspace.scope}/jobs/{plan.run_id}"
    return f"{line}\n{json.dumps(body, indent=2, ensure_ascii=False)}\n"


def submit_run(
    client: WorkspaceClient, submission: Submission, workspace: WorkspaceSettings, told: set[str] | None = None
) -> Handle:
    """Upload the files that the run needs and the Azure ML workspace does not have yet, and create the run's job there.
    Return the run's handle. `told` is the set of notices that were shown already; the notices of this call are added to
    it. Raise SubmitRejected if the service refuses the job, and SubmitAgain if an earlier step failed."""
    request: Request = submission.payload
    line = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        body = _upload(client, request, submission, workspace, _Reports(line, set() if told is None else told))
    except SubmitAgain:
        raise
    except WorldsizeError as error:
        raise SubmitAgain(error.what, error.where, error.hint) from None
    finally:
        line.clear()
    made = client.put(f"/jobs/{submission.plan.run_id}", body)
    return {
        "type": "azureml",
        "run_id": submission.plan.run_id,
        "name": submission.plan.run_id,
        "nodes": len(submission.plan.agents),
        "agent": workspace.agent,
        "page": _page(made),
    }


class _Reports(NamedTuple):
    """Output for the user: the progress of uploads, and the files that they leave out. `told` is the set of notices
    that were shown already."""

    line: NoticePrinter
    told: set[str]

    def of(self, what: str) -> tuple[Progress, Notice]:
        """Return the progress callback and the notice callback of the upload with the name `what`."""
        return partial(self.line.transfer, what), partial(self._notice, what)

    def _notice(self, what: str, text: str) -> None:
        if (said := f"{what}: {text}") not in self.told:
            self.told.add(said)
            self.line.notice(said)


def _upload(
    client: WorkspaceClient, request: Request, submission: Submission, workspace: WorkspaceSettings, reports: _Reports
) -> dict[str, Any]:
    """Upload the code, the environment and the inputs of the run's Azure ML job, and with agents the run's own files.
    Return the body of the request that creates the job."""
    plan, paths = submission.plan, submission.paths
    job = _asked_job(request, workspace)
    if not workspace.agent:
        job = _with_own_inputs(job, paths)
    login = StorageLogin()
    has_code = job.code or job.additional_includes
    names = ResolvedNames(
        code=upload_code(client, paths.code, login, *reports.of("code")) if has_code else None,
        environment=register_environment(client, job, login, *reports.of("environment")),
        compute=_compute_id(workspace),
        data={path: _data_uri(client, path, login, reports, workspace) for path in _paths(job)},
    )
    if not workspace.agent:
        return request_body(job, names)
    return agent_request(job, plan, names, _upload_files(client, request.files(), plan, paths))


def _asked_job(request: Request, workspace: WorkspaceSettings) -> Job:
    """Return the job of `request` as the Azure ML service is requested to run it, with the compute's environment if the
    job names none. Without agents, it is the job as its exported file describes it."""
    job = with_environment(request.job, workspace)
    return job if workspace.agent else exported_job(job)


def _with_own_inputs(job: Job, paths: RunPaths) -> Job:
    """Return `job` with the input values that its run has as an element of a job array; `job` unchanged if the run is
    not such an element. Agents read these values from their plan."""
    place = array_of(paths)
    array = read_array(place[0]) if place is not None else None
    if place is None or array is None or not array.values:
        return job
    return job._replace(inputs={**job.inputs, **array.values[place[1]]})


def _page(made: Any) -> str:
    """Return the https address of the job's page in Azure ML's studio, from `made`, the service's response to the job's
    creation; "" if the response contains none."""
    services = (made.get("properties") or {}).get("services") if isinstance(made, dict) else None
    page = ((services or {}).get("Studio") or {}).get("endpoint")
    return page if isinstance(page, str) and page.startswith("https://") else ""


def with_environment(job: Job, workspace: WorkspaceSettings) -> Job:
    """Return `job` with the environment that `workspace` sets for its compute if the job names none; otherwise `job`
    unchanged."""
    return job._replace(environment=workspace.environment) if job.environment is None else job


def _data_uri(
    client: WorkspaceClient, path: str, login: StorageLogin, reports: _Reports, workspace: WorkspaceSettings
) -> str:
    """Return Azure ML's name for the job input at `path`: the id of an asset, an address unchanged, or the location in
    this workspace of an output of an earlier run. Upload any other local path first, and return the name of the upload.
    """
    if path.startswith("azureml:"):
        return resolve_asset(client, "data", path)
    if (address := former_output(client, workspace, path)) is not None:
        return address
    progress, notice = reports.of(os.path.basename(path))
    return upload_input(client, path, login, progress, notice=notice)


def _upload_files(client: WorkspaceClient, files: Mapping[str, bytes], plan: Plan, paths: RunPaths) -> str:
    """Upload the run's own files, its plan, the list of its executable programs, and a key that only the run's nodes
    and this client have, to the workspace's default datastore. Return the URI of their folder."""
    key = secrets.token_hex(_KEY_BYTES).encode("ascii")
    write_bytes(os.path.join(paths.root, KEY_FILE), key, private=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {
            **files,
            "plan.json": plan.to_json().encode(),
            PROGRAMS_FILE: json.dumps(_programs(paths.code)).encode(),
            KEY_FILE: key,
        }.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_bytes(path, data, private=True)
        with open_datastore(client, credential=StorageLogin()) as container:
            container.upload(folder_content(folder).files, place := f"worldsize/runs/{plan.run_id}")
    return f"azureml://datastores/{DEFAULT_DATASTORE}/paths/{place}/"


def _compute_id(workspace: WorkspaceSettings) -> str | None:
    return f"{workspace.scope}/computes/{workspace.compute}" if workspace.compute else None


def _programs(code: str) -> list[str]:
    """Return the sorted relative paths of the executable files in the directory `code`. The service's storage does not
    keep this mode bit."""
    found = []
    for directory, _, names in os.walk(code):
        for name in names:
            path = os.path.join(directory, name)
            if os.path.isfile(path) and os.stat(path).st_mode & 0o100:
                found.append(os.path.relpath(path, code))
    return sorted(found)


def _paths(job: Job) -> list[str]:
    return [value.path for value in job.inputs.values() if isinstance(value, Input) and value.path]


def _local_paths(job: Job) -> list[str]:
    return [path for path in _paths(job) if os.path.isabs(path)]


def cancel_run(client: WorkspaceClient, handle: Handle) -> None:
    """Request the cancellation of the Azure ML job of the run that `handle` identifies. Do nothing if the job has ended
    or does not exist any more."""
    from worldsize.wings.azure.workspace.errors import MissingResource

    try:
        client.post(f"/jobs/{native_name(handle)}/cancel")
    except MissingResource:
        pass
    except WorldsizeError:
        if not _is_over(client, handle):
            raise


def _is_over(client: WorkspaceClient, handle: Handle) -> bool:
    from worldsize.wings.azure.workspace.observe import look_at_job

    seen = look_at_job(client, handle)
    return seen.phase in ("ended", "absent") or seen.ending
