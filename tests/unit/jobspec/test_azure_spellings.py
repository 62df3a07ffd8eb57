"""Spellings that Azure's client accepts, read the same here; and what it refuses, kept with a warning."""

from __future__ import annotations

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.job import Job
from worldsize.jobspec.reading.job_file import parse_job


def read(text: str) -> tuple[Job, list[str]]:
    loaded = parse_job("command: x\n" + text + "\n", "job.yml")
    return loaded.job, [each.partition(": ")[2] for each in loaded.warnings]


@pytest.mark.parametrize("said", ["'2'", "' 2 '", "2.0", "2"])
def test_counts_may_be_quoted_or_have_no_fraction(said: str) -> None:
    job, warnings = read(
        "resources: {instance_count: %s}\ndistribution: {type: pytorch, process_count_per_instance: %s}" % (said, said)
    )
    assert (job.resources.instance_count, getattr(job.distribution, "process_count_per_instance", None), warnings) == (
        2,
        2,
        [],
    )


def test_a_quoted_timeout_is_a_number() -> None:
    assert read("limits: {timeout: '60'}")[0].limits.timeout == 60


def test_an_input_may_be_a_mapping_with_a_value() -> None:
    assert read("inputs: {a: {value: 3}}")[0].inputs == {"a": 3}


@pytest.mark.parametrize("name", ["id", "status", "creation_context", "log_files", "parameters"])
def test_what_the_service_sets_is_left_aside(name: str) -> None:
    assert read("%s: {a: 1}" % name)[1] == ["%s: is set by the service; ignored" % name]


def test_what_only_the_service_uses_is_left_aside() -> None:
    job, warnings = read("inputs: {a: {path: x, datastore: azureml:d}}\nservices: {s: {type: ssh, status: Running}}")
    assert job.services == {"s": {"type": "ssh"}}
    assert warnings == [
        "services.s.status: is set by the service; ignored",
        "inputs.a.datastore: has a meaning for the service only; ignored",
    ]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("tags: {a: 1}", "tags.a: is a whole number, which Azure's client refuses here; write it in quotes"),
        ("description:", "description: has no value: it is ignored, and Azure's client refuses it"),
        ("inputs: {a: .inf}", "inputs.a: is .inf, which Azure's client refuses"),
        (
            "environment_variables: {A: }",
            'environment_variables.A: has no value, and is set to empty text; write "" for it',
        ),
    ],
)
def test_what_azure_refuses_or_leaves_open_warns(text: str, warning: str) -> None:
    assert read(text)[1] == [warning]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("identity: {client_id: a}", "identity.type: is missing"),
        ("services: {s: {type: ssh, nodes: 1}}", "services.s.nodes: expected text"),
        ("services: {s: {type: ssh, nodes: some}}", "services.s.nodes: 'some' is not one of the allowed values"),
        ("outputs: {o: {version: 1}}", "outputs.o.version: belongs to a name"),
        ("outputs: {o: {name: a b}}", "outputs.o.name: 'a b' is not a name that a service can register"),
    ],
)
def test_what_azure_refuses_is_refused(text: str, part: str) -> None:
    with pytest.raises(JobError, match=part):
        read(text)
