"""Conversion of a job to the body that the REST interface of Azure Machine Learning accepts (api-version 2025-12-01).
Pure.

Things that the service identifies by id (code, environment, compute, data) are passed as resolved names. The rest comes
from the job. Defaults are included if the job contains them anyway: one instance, one process per instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.jobspec.distribution import Distribution
from worldsize.jobspec.expressions import input_text
from worldsize.jobspec.job import Input, InputValue, Job, Output, Resources

_INPUT_MODES = {
    "mount": "ReadOnlyMount",
    "ro_mount": "ReadOnlyMount",
    "rw_mount": "ReadWriteMount",
    "download": "Download",
    "direct": "Direct",
    "eval_mount": "EvalMount",
    "eval_download": "EvalDownload",
}
_OUTPUT_MODES = {"mount": "ReadWriteMount", "rw_mount": "ReadWriteMount", "upload": "Upload", "direct": "Direct"}
_DISTRIBUTIONS = {"pytorch": "PyTorch", "mpi": "Mpi", "tensorflow": "TensorFlow", "ray": "Ray"}
_DISTRIBUTION_KEYS = {
    "process_count_per_instance": "processCountPerInstance",
    "worker_count": "workerCount",
    "parameter_server_count": "parameterServerCount",
    "port": "port",
    "address": "address",
    "include_dashboard": "includeDashboard",
    "dashboard_port": "dashboardPort",
    "head_node_additional_args": "headNodeAdditionalArgs",
    "worker_node_additional_args": "workerNodeAdditionalArgs",
}
_SERVICES = {
    "ssh": "SSH",
    "tensor_board": "TensorBoard",
    "tensorboard": "TensorBoard",
    "vs_code": "VSCode",
    "vscode": "VSCode",
    "jupyter_lab": "JupyterLab",
    "jupyterlab": "JupyterLab",
    "custom": "Custom",
    "raydashboard": "RayDashboard",
    "tracking": "Tracking",
    "studio": "Studio",
}
_IDENTITIES = {
    "managed": "Managed",
    "managed_identity": "Managed",
    "managedidentity": "Managed",
    "user_identity": "UserIdentity",
    "useridentity": "UserIdentity",
    "aml_token": "AMLToken",
    "amltoken": "AMLToken",
}
_TIERS = {"null": "Null", "spot": "Spot", "basic": "Basic", "standard": "Standard", "premium": "Premium"}
_PRIORITIES = {"low": 1, "medium": 2, "high": 3}


class ResolvedNames(NamedTuple):
    """The service's names for things that the job names in its own way; None if the job names none.

    code         the id of the uploaded code
    environment  the id of the environment
    compute      the id of the compute; None for serverless compute
    data         the URIs that replace the paths of inputs, by these paths
    """

    code: str | None = None
    environment: str | None = None
    compute: str | None = None
    data: Mapping[str, str] = {}


def request_body(job: Job, names: ResolvedNames) -> dict[str, Any]:
    """Return the body of the REST request that creates `job` on Azure ML, as a mapping. `names` are the service's ids
    for the things that the job names. Keys without a value are left out, and the order is the published one."""
    return {"properties": _given(_properties(job, names))}


def _properties(job: Job, names: ResolvedNames) -> dict[str, Any]:
    distribution = job.distribution
    return {
        "jobType": "Command",
        "displayName": job.display_name,
        "experimentName": job.experiment_name,
        "description": job.description,
        "tags": dict(job.tags),
        "properties": dict(job.properties),
        "isArchived": False,
        "command": job.command,
        "codeId": names.code,
        "environmentId": names.environment,
        "computeId": names.compute,
        "environmentVariables": dict(job.environment_variables),
        "inputs": {name: _input(value, names.data) for name, value in job.inputs.items() if not _is_absent(value)},
        "outputs": {name: _output(value) for name, value in job.outputs.items()},
        "distribution": _distribution(distribution) if distribution and distribution.type in _DISTRIBUTIONS else None,
        "resources": _resources(job.resources),
        "limits": _limits(job.limits.timeout),
        "services": {name: _service(service) for name, service in job.services.items()},
        "identity": _identity(job.identity) if job.identity else None,
        "queueSettings": _queue_settings(job.queue_settings),
        "parentJobName": job.parent_job_name,
    }


def _is_absent(value: InputValue) -> bool:
    return isinstance(value, Input) and value.optional and value.path is None


def _input(value: InputValue, data: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(value, Input):
        return {"jobInputType": "literal", "value": input_text(value)}
    path = value.path or ""
    if path.startswith("${{"):
        return {"jobInputType": "literal", "value": path}
    mode = _INPUT_MODES[value.mode] if value.mode else None
    return _given({"jobInputType": value.type, "uri": data.get(path, path), "mode": mode})


def _output(output: Output) -> dict[str, Any]:
    return _given(
        {
            "jobOutputType": output.type,
            "uri": output.path,
            "mode": _OUTPUT_MODES[output.mode] if output.mode else None,
            "assetName": output.name,
            "assetVersion": output.version,
            "description": output.description,
        }
    )


def _distribution(distribution: Distribution) -> dict[str, Any]:
    values = {key: getattr(distribution, name, None) for name, key in _DISTRIBUTION_KEYS.items()}
    return {"distributionType": _DISTRIBUTIONS[distribution.type], **_given(values)}


def _resources(resources: Resources) -> dict[str, Any]:
    """Return the `resources` object of the request body. If the arguments of the container are a list, the service has
    no keys for the most instances and the locations, so neither is sent, as in Azure's client."""
    found = {
        "instanceCount": resources.instance_count,
        "instanceType": resources.instance_type,
        "properties": dict(resources.properties),
        "shmSize": resources.shm_size,
    }
    if isinstance(resources.docker_args, tuple):
        return _given({**found, "dockerArgsList": list(resources.docker_args)})
    return _given(
        {
            **found,
            "dockerArgs": resources.docker_args,
            "locations": list(resources.locations),
            "maxInstanceCount": resources.max_instance_count,
        }
    )


def _limits(timeout: float | None) -> dict[str, Any] | None:
    return {"jobLimitsType": "Command", "timeout": iso_duration(timeout)} if timeout else None


def iso_duration(seconds: float) -> str:
    """Return a duration in seconds in the form of ISO 8601, in days, hours, minutes and seconds: 93600 as P1DT2H, 90.5
    as PT1M30.5S."""
    micros = round(seconds * 1_000_000)
    whole, fraction = divmod(micros, 1_000_000)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest}.{fraction:06d}".rstrip("0") if fraction else str(rest)
    clock = "".join(
        f"{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M"), (text, "S")) if value not in (0, "0")
    )
    date = f"{days}D" if days else ""
    return f"P{date}T{clock}" if clock else f"P{date or 'T0S'}"


def _service(service: Mapping[str, Any]) -> dict[str, Any]:
    kind = service.get("type") or service.get("job_service_type")
    properties = dict(service.get("properties") or {})
    for name, key in (("ssh_public_keys", "sshPublicKeys"), ("log_dir", "logDir")):
        if service.get(name):
            properties[key] = service[name]
    return _given(
        {
            "jobServiceType": _SERVICES[kind.lower()] if kind else None,
            "nodes": {"nodesValueType": "All"} if service.get("nodes") == "all" else None,
            "port": service.get("port"),
            "properties": properties,
        }
    )


def _identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    kind = _IDENTITIES[identity["type"].lower()]
    if kind != "Managed":
        return {"identityType": kind}
    found = {
        "clientId": identity.get("client_id"),
        "objectId": identity.get("object_id"),
        "resourceId": identity.get("msi_resource_id"),
    }
    return {"identityType": kind, **_given(found)}


def _queue_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    tier, priority = settings.get("job_tier"), settings.get("priority")
    return _given(
        {
            "jobTier": _TIERS[tier.lower()] if tier else None,
            "priority": _PRIORITIES[priority.lower()] if priority else None,
        }
    )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None and value != {} and value != []}
