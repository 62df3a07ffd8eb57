"""The check that a verb's output with `-o json` matches its schema, and contains nothing else."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from worldsize.cli.main import ALIASES
from worldsize.registry import find_module

_MOST_LINES = 100
_FORMS = (["-o", "json"], ["--output", "json"])


def asks_for_json(words: Sequence[str]) -> bool:
    """Return whether the worldsize command line `words` has `-o json` or `--output json` among worldsize's own words,
    before any `--`."""
    own = list(words[: words.index("--")] if "--" in words else words)
    return any(own[place : place + 2] in _FORMS for place in range(len(own)))


def check_output(words: Sequence[str], out: str) -> None:
    """Raise AssertionError if `out`, the JSON output of the worldsize command line `words`, does not match the schema
    of its verb, or has a key that the schema does not name. Of many lines, only the first are checked. Nothing is
    checked without the package jsonschema, or without schemas."""
    schemas = find_module("wings.project.verb_schemas")
    if schemas is None or not out.strip():
        return
    verb = schemas.find_verb([*ALIASES.get(words[0], words[:1]), *words[1:]])
    assert verb is not None, "-o json of a verb without a schema: %s" % " ".join(words)
    for text in out.splitlines()[:_MOST_LINES] if verb == "logs" else [out]:
        what = problem(verb, json.loads(text))
        assert not what, "%s: %s" % (" ".join(words), what)


def problem(verb: str, value: Any) -> str:
    """Return where and how the JSON value violates the schema of the verb's output; "" if it is valid, or cannot be
    checked."""
    validator = _validator(verb)
    if validator is None:
        return ""
    error = import_module("jsonschema.exceptions").best_match(validator.iter_errors(value))
    return "" if error is None else "%s: %s" % (error.json_path, error.message[:1000])


@functools.cache
def _validator(verb: str) -> Any:
    """Return the jsonschema validator for the output of a verb; None if no jsonschema is installed that supports the
    draft, or there are no schemas."""
    schemas = find_module("wings.project.verb_schemas")
    try:
        make = import_module("jsonschema").Draft202012Validator
    except (ImportError, AttributeError):
        return None
    return make(closed(schemas.verb_schema(verb))) if schemas is not None else None


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON schema with `additionalProperties` false in every object with named keys, unless the schema
    permits other keys there."""
    found = {key: _closed_part(key, value) for key, value in schema.items()}
    return {"additionalProperties": False, **found} if "properties" in schema else found


def _closed_part(key: str, value: Any) -> Any:
    if key in ("properties", "$defs"):
        return {name: closed(each) for name, each in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return closed(value)
    return [closed(each) for each in value] if key == "anyOf" else value
