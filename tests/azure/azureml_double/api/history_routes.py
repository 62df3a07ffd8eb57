"""Run history: a run and its details with signed addresses of its logs, artifacts, data behind outputs; metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from azureml_double.jobs import Job
from azureml_double.options import ARTIFACT_STORE, CONTAINERS, GROUP, SUBSCRIPTION, WORKSPACE
from azureml_double.web import Answer, Refusal, Request, Route

if TYPE_CHECKING:
    from azureml_double.service import Service

_HISTORY, _ARTIFACTS = "/history/v1.0", "/(?:history/v1.0|artifact/v2.0)"
_RUN = "/(?:experiments/[^/]+/|experimentids/[^/]+/)?runs/{name}"
_PLACE = "azureml://locations/westeurope/workspaces/double/data/azureml_%s_output_data_%s/versions/1"


def routes(service: Service) -> list[Route]:
    jobs = service.jobs

    def run(request: Request, name: str) -> Answer:
        return Answer(200, _run(jobs.get(name)))

    def change(request: Request, name: str) -> Answer:
        asked = request.json()
        hidden = {"isArchived": asked["hidden"]} if isinstance(asked.get("hidden"), bool) else {}
        jobs.change(jobs.get(name), {**asked, **hidden})
        return Answer(200, _run(jobs.get(name)))

    def details(request: Request, name: str) -> Answer:
        job = jobs.get(name)
        blobs = service.store.list(CONTAINERS[ARTIFACT_STORE], job.artifacts + "/")
        names = {blob.name.removeprefix(job.artifacts + "/"): blob.name for blob in blobs}
        logs = {
            short: service.signed(CONTAINERS[ARTIFACT_STORE], full)
            for short, full in names.items()
            if short.startswith(("user_logs/", "system_logs/", "logs/"))
        }
        return Answer(200, {**_run(job), "logFiles": logs})

    def data(request: Request) -> Answer:
        name = str(request.json().get("runId"))
        return Answer(200, {"runMetadata": _run(jobs.get(name)), "runDefinition": None, "jobSpecification": None})

    def children(request: Request, name: str) -> Answer:
        jobs.get(name)
        found = [job for job in jobs.list() if job.properties.get("parentJobName") == name]
        return Answer(200, {"value": [_run(job) for job in found]})

    def artifacts(request: Request, name: str) -> Answer:
        job = jobs.get(name)
        prefix = "%s/%s" % (job.artifacts, request.query.get("path", ""))
        found = service.store.list(CONTAINERS[ARTIFACT_STORE], prefix)
        return Answer(200, {"value": [_artifact(job, blob.name) for blob in found]})

    def content(request: Request, name: str) -> Answer:
        job = jobs.get(name)
        blob = service.store.get(CONTAINERS[ARTIFACT_STORE], "%s/%s" % (job.artifacts, request.query.get("path", "")))
        return Answer(200, _with_content(service, _artifact(job, blob.name)))

    def contents(request: Request, name: str) -> Answer:
        found = artifacts(request, name).body
        assert isinstance(found, dict)
        return Answer(200, {"value": [_with_content(service, each) for each in found["value"]]})

    def uris(request: Request) -> Answer:
        """Where the data of outputs lie."""
        asked = request.json().get("values")
        if not isinstance(asked, list):
            raise Refusal(400, "UserError", "values: a list of ids.")
        return Answer(200, {"values": {each: {"uri": _uri(service, each), "type": "uri_folder"} for each in asked}})

    def metrics(request: Request, name: str) -> Answer:
        jobs.get(name)
        return Answer(200, {"value": []})

    def mlflow(request: Request, verb: str) -> Answer:
        """Taken, and kept nowhere."""
        return Answer(200, {})

    make = service.workspace_route
    return [
        make("GET", _RUN, run, _HISTORY),
        make("PATCH", _RUN, change, _HISTORY),
        make("GET", _RUN + "/details", details, _HISTORY),
        make("GET", _RUN + "/children", children, _HISTORY),
        make("POST", "/rundata", data, _HISTORY),
        make("GET", _RUN + "/artifacts", artifacts, _ARTIFACTS),
        make("GET", _RUN + "/artifacts/contentinfo", content, _ARTIFACTS),
        make("GET", _RUN + "/artifacts/prefix/contentinfo", contents, _ARTIFACTS),
        make("POST", "/dataversion/batchGetResolvedUris", uris, "/data/v1.0"),
        make("POST", "/api/2.0/mlflow/runs/{verb}", mlflow, "/mlflow/v[12].0"),
        *(
            make("POST", "/runs/{name}/" + each, metrics, "/metric/v2.0")
            for each in ("full", "list", "sample", "batch")
        ),
    ]


def _run(job: Job) -> dict[str, Any]:
    outputs = {name: {"assetId": _PLACE % (job.name, name), "type": "uri_folder"} for name in _outputs(job)}
    return {
        "runId": job.name,
        "runUuid": job.name,
        "rootRunId": job.name,
        "parentRunId": job.properties.get("parentJobName"),
        "experimentId": job.experiment,
        "status": job.status,
        "createdUtc": job.created,
        "createdTimeUtc": job.created,
        "startTimeUtc": job.time_of("Running"),
        "endTimeUtc": job.time_of("Completed", "Failed", "Canceled"),
        "error": {"error": job.error} if job.error else None,
        "warnings": [{"source": "Double", "message": job.reason}] if job.reason else [],
        "cancelationReason": job.reason or None,
        "displayName": job.properties.get("displayName") or job.name,
        "description": job.properties.get("description"),
        "dataContainerId": "dcid.%s" % job.name,
        "hidden": bool(job.properties.get("isArchived")),
        "runType": "azureml.scriptrun",
        "runTypeV2": {"orchestrator": "Execution", "traits": [], "computeType": "AmlCompute"},
        "properties": job.properties.get("properties") or {},
        "tags": job.properties.get("tags") or {},
        "target": str(job.properties.get("computeId") or "").rpartition("/")[2],
        "services": {},
        "inputs": {},
        "outputs": outputs,
    }


def _outputs(job: Job) -> dict[str, Any]:
    """Known when the job is over, if they hold what ranks wrote."""
    return (job.properties.get("outputs") or {}) if job.is_over else {}


def _uri(service: Service, asset: str) -> str:
    middle = asset.partition("/data/azureml_")[2].rpartition("/versions/")[0]
    job, _, output = middle.rpartition("_output_data_")
    datastore, path = service.jobs.get(job).output(output)
    group = "subscriptions/%s/resourcegroups/%s" % (SUBSCRIPTION, GROUP)
    return "azureml://%s/workspaces/%s/datastores/%s/paths/%s" % (group, WORKSPACE, datastore, path)


def _artifact(job: Job, blob: str) -> dict[str, Any]:
    container, path = "dcid.%s" % job.name, blob.removeprefix(job.artifacts + "/")
    full = "ExperimentRun/%s/%s" % (container, path)
    return {"artifactId": full, "origin": "ExperimentRun", "container": container, "path": path}


def _with_content(service: Service, artifact: dict[str, Any]) -> dict[str, Any]:
    uri = service.signed(CONTAINERS[ARTIFACT_STORE], artifact["artifactId"])
    return {**{name: artifact[name] for name in ("origin", "container", "path")}, "contentUri": uri}
