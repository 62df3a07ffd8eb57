"""Files that Azure's own SDK accepts are accepted here, and files that it refuses are refused, but for what is named in
`DIFFERENCES`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from body_oracle import BodyOracle

from worldsize.errors import JobError
from worldsize.jobspec.input_types import input_problems
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.reading.job_file import load_job

pytestmark = pytest.mark.slow

HEAD = {"command": "python train.py", "environment": "azureml:env:1"}
VALUES: tuple[Any, ...] = (None, True, 3, 2.5, "x", "2", "", [], ["a"], {}, {"a": 1}, -1)
HOLDERS: dict[str, Any] = {
    "distribution": {"type": "pytorch"},
    "inputs.a": {"type": "uri_folder", "path": "https://host/x"},
    "services.a": {"type": "tensor_board"},
    "identity": {"type": "managed"},
    "environment": {"image": "i"},
}
KEYS = [
    "name",
    "display_name",
    "experiment_name",
    "description",
    "tags",
    "tags.a",
    "properties",
    "properties.a",
    "command",
    "code",
    "environment",
    "environment.image",
    "environment.conda_file",
    "environment.name",
    "environment.build",
    "environment_variables",
    "environment_variables.A",
    "distribution",
    "distribution.type",
    "compute",
    "resources",
    "resources.instance_count",
    "resources.instance_type",
    "resources.shm_size",
    "resources.docker_args",
    "resources.locations",
    "resources.max_instance_count",
    "resources.properties",
    "limits",
    "limits.timeout",
    "inputs",
    "inputs.a",
    "inputs.a.type",
    "inputs.a.path",
    "inputs.a.mode",
    "outputs",
    "outputs.a",
    "outputs.a.type",
    "outputs.a.path",
    "outputs.a.mode",
    "outputs.a.name",
    "queue_settings",
    "queue_settings.job_tier",
    "queue_settings.priority",
    "services",
    "services.a",
    "services.a.type",
    "services.a.port",
    "services.a.nodes",
    "services.a.log_dir",
    "services.a.properties",
    "identity",
    "identity.type",
    "identity.client_id",
    "parent_job_name",
    "type",
    "$schema",
]


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


# Accepted here, refused there.
LENIENT = {
    "a key without a value counts as absent, with a warning": lambda key, value: value is None,
    "numbers are kept as they are written, with a warning": lambda key, value: (
        (key in ("tags.a", "properties.a", "resources.shm_size") and is_number(value))
        or (key in ("tags", "properties") and value == {"a": 1})
    ),
    "a name alone is an environment of worldsize's configuration": lambda key, value: (
        key == "environment" and isinstance(value, str)
    ),
    "a list is the native steps of an environment": lambda key, value: (
        key == "environment.build" and isinstance(value, list)
    ),
    "a file that is down is a problem of the run, told with all others": lambda key, value: (
        key in ("code", "environment.conda_file") and isinstance(value, str) and value != ""
    ),
}
# Refused here, accepted there: the service would refuse it, or do something else than it says.
STRICT = {
    "empty text": lambda key, value: value == "",
    "no whole number, or one below 1": lambda key, value: (
        key.endswith(("count", "port", "timeout")) and value in (2.5, -1)
    ),
    "a list or a mapping in place of text": lambda key, value: (
        key in ("environment.name", "environment.conda_file", "environment_variables.A")
        and (isinstance(value, (list, dict)) or is_number(value))
    ),
    "a type of service that nobody knows": lambda key, value: key == "services.a.type" and value in ("x", "2"),
    "an input without a path": lambda key, value: key == "inputs.a" and value == {},
}
DIFFERENCES = {"ours alone": LENIENT, "theirs alone": STRICT}

COMPONENT = {
    "$schema": "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json",
    "name": "fit",
    "version": "1",
    "type": "command",
    "command": "echo",
    "environment": "azureml:env:1",
}
TYPES: dict[str, Any] = {
    "rounds": {"type": "integer", "default": 2, "min": 1, "max": 10},
    "rate": {"type": "number", "default": 1},
    "flag": {"type": "boolean", "default": "TRUE"},
    "loss": {"type": "string", "enum": ["l1", "l2"], "default": "l1"},
    "note": {"type": "string", "optional": True},
    "data": {"type": "uri_file", "mode": "ro_mount", "description": "rows"},
}
COMPONENTS: dict[str, dict[str, Any]] = {
    "every type": {"inputs": TYPES, "outputs": {"line": {"type": "uri_folder"}}},
    "distribution": {"distribution": {"type": "mpi", "process_count_per_instance": 2}},
    "resources": {"resources": {"instance_count": 2, "shm_size": "2g"}},
    "version as a number": {"version": 3},
    "is_deterministic": {"is_deterministic": False},
    "texts": {"display_name": "Fit", "description": "Text", "tags": {"a": "b"}},
    "unknown key": {"owner": "me"},
    "name with capitals": {"name": "Fit"},
    "name with a hyphen": {"name": "fit-line"},
    "no name": {"name": None},
    "no type of an input": {"inputs": {"a": {"default": 1}}},
    "unknown type": {"inputs": {"a": {"type": "float"}}},
    "default of data": {"inputs": {"a": {"type": "uri_file", "default": "x"}}},
    "default of another type": {"inputs": {"a": {"type": "integer", "default": "two"}}},
    "literal as an input": {"inputs": {"a": 1}},
    "limit of text": {"inputs": {"a": {"type": "string", "max": 3}}},
    "no type of an output": {"outputs": {"a": {"mode": "upload"}}},
}


def written(folder: Path, trees: list[dict[str, Any]]) -> list[str]:
    paths = [folder / ("%d.yml" % number) for number in range(len(trees))]
    for path, tree in zip(paths, trees, strict=True):
        path.write_text(json.dumps(tree))
    return [str(path) for path in paths]


def ours(path: str) -> Job | None:
    try:
        return load_job(path).job
    except JobError:
        return None


def tree_with(key: str, value: Any) -> dict[str, Any]:
    """A job file that says `value` at the YAML path `key`."""
    tree: dict[str, Any] = json.loads(json.dumps(HEAD))
    here, words = tree, key.split(".")
    for count, word in enumerate(words[:-1], 1):
        if not isinstance(here.get(word), dict):
            here[word] = dict(HOLDERS.get(".".join(words[:count]), {}))
        here = here[word]
    here[words[-1]] = value
    return tree


@pytest.mark.exhaustive
def test_both_accept_and_refuse_the_same_values_of_each_key(oracle: BodyOracle, tmp_path: Path) -> None:
    cases = [(key, value) for key in KEYS for value in VALUES]
    paths = written(tmp_path, [tree_with(key, value) for key, value in cases])
    used, unknown = set(), []
    for (key, value), path, theirs in zip(cases, paths, oracle.bodies(paths), strict=True):
        accepted = (ours(path) is not None, "refused" not in theirs)
        if accepted[0] == accepted[1]:
            continue
        reasons = LENIENT if accepted[0] else STRICT
        found = [why for why, holds in reasons.items() if holds(key, value)]
        used.update(found)
        if not found:
            unknown.append("%s: %r: ours %s, theirs %s" % (key, value, *accepted))
    assert not unknown, "\n".join(unknown)
    assert used == {*LENIENT, *STRICT}, "a difference that is none any more"


def test_both_accept_and_refuse_the_same_components(oracle: BodyOracle, tmp_path: Path) -> None:
    trees = [
        {key: value for key, value in {**COMPONENT, **changes}.items() if value is not None}
        for changes in COMPONENTS.values()
    ]
    paths = written(tmp_path, trees)
    accepted = {name: ours(path) is not None for name, path in zip(COMPONENTS, paths, strict=True)}
    answers = oracle.components(paths)
    assert accepted == {name: "refused" not in each for name, each in zip(COMPONENTS, answers, strict=True)}
    assert sum(accepted.values()) == 7


def test_both_read_the_same_of_a_component(oracle: BodyOracle, tmp_path: Path) -> None:
    path = written(tmp_path, [{**COMPONENT, **COMPONENTS["every type"]}])[0]
    theirs = oracle.components([path])[0]
    job = load_job(path).job
    for name, said in theirs["inputs"].items():
        kind, value = job.input_types[name], job.inputs.get(name)
        assert (kind.type, kind.optional) == (said["type"], said.get("optional", False))
        assert [kind.min, kind.max] == [float(said[key]) if key in said else None for key in ("min", "max")]
        assert list(kind.enum) == said.get("enum", [])
        assert (None if value is None or isinstance(value, Input) else str(value)) == said.get("default")
    assert [key for key, _, _ in input_problems(job)] == ["inputs.data"]
    assert {name: output.type for name, output in job.outputs.items()} == {"line": "uri_folder"}
