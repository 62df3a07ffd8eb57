"""The JSON schema agrees with the reader: what is read satisfies it, what is misspelt does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from job_strategies import FULL, WRONG_KEYS, jobs

from worldsize.jobspec.dump import dump_job, job_tree
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.wings.project.schema import job_schema

SCHEMA = job_schema()
TYPES: dict[str, Any] = {
    "null": type(None),
    "boolean": bool,
    "string": str,
    "array": list,
    "object": dict,
    "integer": int,
    "number": (int, float),
}


def satisfies(value: Any, schema: dict[str, Any]) -> bool:
    """The part of JSON schema that ours uses; a keyword that is not known here is an error."""
    checks = {
        "$ref": lambda ref: satisfies(value, SCHEMA["$defs"][ref.rpartition("/")[2]]),
        "type": lambda types: any(_is(value, name) for name in ([types] if isinstance(types, str) else types)),
        "enum": lambda choices: str(value).lower() in choices or value in choices,
        "pattern": lambda pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "exclusiveMinimum": lambda bound: value > bound,
        "items": lambda items: all(satisfies(item, items) for item in value),
        "anyOf": lambda parts: any(satisfies(value, part) for part in parts),
        "oneOf": lambda parts: sum(satisfies(value, part) for part in parts) == 1,
        "required": lambda names: isinstance(value, dict) and all(name in value for name in names),
        "properties": lambda keys: all(satisfies(value[name], keys[name]) for name in keys if name in value),
        "propertyNames": lambda names: all(satisfies(name, names) for name in value),
        "additionalProperties": lambda extra: all(
            extra if isinstance(extra, bool) else satisfies(value[name], extra)
            for name in value
            if name not in schema.get("properties", {})
        ),
    }
    words = {name: rule for name, rule in schema.items() if name not in ("description", "title", "$schema", "$defs")}
    if "type" in words and not checks["type"](words["type"]):
        return False
    return all(checks[name](rule) for name, rule in words.items())


def _is(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def test_every_key_is_described() -> None:
    assert set(SCHEMA["properties"]) == set(JOB)
    assert all(entry["description"] for entry in SCHEMA["properties"].values())
    assert SCHEMA["$schema"].endswith("2020-12/schema")


def test_a_whole_job_satisfies_it() -> None:
    tree = yaml.safe_load(FULL.replace("2024-01-01", "'2024-01-01'"))
    assert satisfies(tree, SCHEMA)


@pytest.mark.parametrize(("line", "message", "nearest"), WRONG_KEYS)
def test_misspelt_words_do_not(line: str, message: str, nearest: str) -> None:
    assert not satisfies(yaml.safe_load("command: x\n" + line), SCHEMA)
    assert satisfies(yaml.safe_load("command: x"), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{command: x, argv: [x]}",
        "{command: ''}",
        "{command: 3}",
        "{command: x, resources: {instance_count: 0}}",
        "{command: x, limits: {timeout: 0}}",
        "{command: x, distribution: {process_count_per_instance: 1}}",
        "{command: x, distribution: {type: none, process_count_per_instance: 0}}",
        "{command: x, inputs: {a b: 1}}",
        "{command: x, share_gpus: 1}",
    ],
)
def test_wrong_values_do_not(text: str) -> None:
    assert not satisfies(yaml.safe_load(text), SCHEMA)


@pytest.mark.parametrize("distribution", ["{type: PyTorch, added: {deep: 1}}", "{type: NONE}", "{type: pyTorch}", ""])
def test_distributions_in_any_case_and_with_extras_do(distribution: str) -> None:
    assert satisfies(yaml.safe_load("command: x\ndistribution: %s" % distribution), SCHEMA)


@pytest.mark.parametrize("kind", ["ssh", "tensor_board", "vs_code", "jupyter_lab", "custom", "JupyterLab", "VSCode"])
def test_services_of_every_spelling_do(kind: str) -> None:
    text = "command: x\nservices: {a: {type: %s}}" % kind
    assert satisfies(yaml.safe_load(text), SCHEMA)
    assert parse_job(text, "job.yml").job.services["a"]["type"] == kind


@pytest.mark.parametrize("kind", ["managed", "managed_identity", "user_identity", "aml_token", "UserIdentity"])
def test_identities_of_every_spelling_do(kind: str) -> None:
    text = "command: x\nidentity: {type: %s}" % kind
    assert satisfies(yaml.safe_load(text), SCHEMA)
    assert parse_job(text, "job.yml").job.identity["type"] == kind


@jobs
def test_every_job_that_can_be_written_satisfies_it(job: Any) -> None:
    assert satisfies(job_tree(job), SCHEMA), dump_job(job)
