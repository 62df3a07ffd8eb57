"""Jobs of the control plane: put, get, list, cancel, delete."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from azureml_double.api.compute_routes import compute_body
from azureml_double.jobs import Job
from azureml_double.options import scope
from azureml_double.runs.distributions import check_distribution
from azureml_double.times import duration
from azureml_double.web import Answer, Refusal, Request, Route

if TYPE_CHECKING:
    from azureml_double.service import Service

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}")
_OBJECTS = ("resources", "limits", "distribution", "queueSettings", "identity")
POLL_SECONDS = 1


def routes(service: Service) -> list[Route]:
    jobs = service.jobs

    def shown(job: Job) -> dict[str, Any]:
        return job.resource(service.url.removeprefix("https://"))

    def put(request: Request, name: str) -> Answer:
        properties = request.json().get("properties")
        _check(service, name, properties)
        job, new = jobs.put(name, dict(properties))
        if new:
            service.runner.start(job)
        return Answer(201 if new else 200, shown(job))

    def get(request: Request, name: str) -> Answer:
        return Answer(200, shown(jobs.get(name)))

    def listing(request: Request) -> Answer:
        """A page of them; `listViewType`: ActiveOnly, ArchivedOnly or All."""
        view = request.query.get("listViewType", "ActiveOnly")
        archived = {"ActiveOnly": (False,), "ArchivedOnly": (True,)}.get(view, (False, True))
        found = [job for job in jobs.list() if bool(job.properties.get("isArchived")) in archived]
        tag = request.query.get("tag")
        found = [job for job in found if not tag or _has_tag(job, tag)]
        start = int(request.query.get("$skip", "0")) if request.query.get("$skip", "0").isdigit() else 0
        page = found[start : start + service.options.list_page]
        body: dict[str, Any] = {"value": [shown(job) for job in page]}
        if start + len(page) < len(found):
            query = urlencode({**request.query, "$skip": str(start + len(page))})
            body["nextLink"] = "%s%s/jobs?%s" % (service.url, quote(scope()), query)
        return Answer(200, body)

    def cancel(request: Request, name: str) -> Answer:
        """An operation that has ended when the job has."""
        job = jobs.get(name)
        if job.is_over:
            return Answer(200)
        service.runner.cancel(job)
        return waiting(name)

    def waiting(name: str) -> Answer:
        place = "%s%s/operations/%s?api-version=2025-01-01-preview" % (service.url, scope(), name)
        return Answer(202, headers={"Location": place, "Retry-After": str(POLL_SECONDS)})

    def operation(request: Request, name: str) -> Answer:
        return Answer(200) if jobs.get(name).is_over else waiting(name)

    def delete(request: Request, name: str) -> Answer:
        job = jobs.get(name)
        if not job.is_over:
            raise Refusal(409, "UserError", "Job %s is %s and cannot be deleted." % (name, job.status))
        jobs.remove(name)
        return Answer(200)

    make = service.workspace_route
    return [
        make("GET", "/jobs", listing),
        make("PUT", "/jobs/{name}", put),
        make("GET", "/jobs/{name}", get),
        make("DELETE", "/jobs/{name}", delete),
        make("POST", "/jobs/{name}/cancel", cancel),
        make("GET", "/operations/{name}", operation),
    ]


def _has_tag(job: Job, tag: str) -> bool:
    """`name` or `name=value`."""
    name, equals, value = tag.partition("=")
    tags = job.properties.get("tags") or {}
    return name in tags and (not equals or tags[name] == value)


def _check(service: Service, name: str, properties: object) -> None:
    """Raises Refusal for what the service, or this double, does not run."""
    if not _NAME.fullmatch(name):
        raise Refusal(400, "UserError", "Job name %r is invalid." % name)
    if not isinstance(properties, dict) or properties.get("jobType") != "Command":
        raise Refusal(400, "UserError", "jobType: the double runs Command alone.")
    _check_form(properties)
    if not isinstance(properties.get("command"), str) or not properties["command"].strip():
        raise Refusal(400, "UserError", "The Command field is required.")
    if not properties.get("environmentId"):
        raise Refusal(400, "UserError", "The EnvironmentId field is required.")
    compute = str(properties.get("computeId") or "").rpartition("/")[2]
    instances = (properties.get("resources") or {}).get("instanceCount", 1)
    if compute:
        most = compute_body(service, compute)["properties"]["properties"]["scaleSettings"]["maxNodeCount"]
        if not isinstance(instances, int) or not 1 <= instances <= most:
            text = "The requested number of nodes %s exceeds the maximum %s of compute %s." % (instances, most, compute)
            raise Refusal(400, "UserError", text)
    limits = properties.get("limits") or {}
    try:
        check_distribution(properties.get("distribution") or {})
        duration(limits.get("timeout") or "PT1S")
    except ValueError as error:
        raise Refusal(400, "UserError", str(error)) from None
    code = properties.get("codeId")
    if code and "/codes/" in code:
        asset, _, version = code.partition("/codes/")[2].partition("/versions/")
        service.assets.get("codes", asset, version)


def _check_form(properties: dict[str, Any]) -> None:
    """Raises Refusal where a value is of another type than the specification's."""
    for name in ("tags", "properties", "services", "environmentVariables", "inputs", "outputs", *_OBJECTS):
        value = properties.get(name)
        if value is not None and not isinstance(value, dict):
            raise Refusal(400, "UserError", "%s: not an object." % name)
    for name in ("inputs", "outputs"):
        if not all(isinstance(each, dict) for each in (properties.get(name) or {}).values()):
            raise Refusal(400, "UserError", "%s: each is an object." % name)
    texts = [properties.get(name) for name in ("codeId", "computeId", "environmentId", "experimentName", "displayName")]
    texts += (properties.get("environmentVariables") or {}).values()
    if not all(each is None or isinstance(each, str) for each in texts):
        raise Refusal(400, "UserError", "A value that has to be text is none.")
