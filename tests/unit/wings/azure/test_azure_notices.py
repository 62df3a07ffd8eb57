"""What of a job only Azure's service honours is said."""

from __future__ import annotations

from worldsize.jobspec.job import Input, Job, Output, Resources
from worldsize.wings.azure.notices import service_only_keys


def test_what_only_the_service_honours_is_named() -> None:
    job = Job(
        command="echo",
        compute="azureml:gpu-cluster",
        properties={"a": "b"},
        resources=Resources(2, instance_type="STANDARD_NC6", shm_size="2g", docker_args="--ipc=host"),
        outputs={"model": Output(name="best", version="1"), "log": Output()},
        services={"ssh": {"type": "ssh"}},
        identity={"type": "managed"},
        queue_settings={"job_tier": "spot"},
        parent_job_name="sweep_7",
    )
    assert service_only_keys(job) == [
        "properties",
        "resources.instance_type",
        "resources.docker_args",
        "queue_settings",
        "identity",
        "parent_job_name",
        "outputs.model.name",
        "outputs.model.version",
    ]
    assert (
        service_only_keys(Job(command="echo", compute="local", tags={"a": "b"}, inputs={"x": Input(path="/d")})) == []
    )
