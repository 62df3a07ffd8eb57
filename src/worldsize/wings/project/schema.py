"""The JSON schema of job files, for editors, created from the table of keys that the parser uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.keys.environment import ENVIRONMENT, STEP
from worldsize.jobspec.keys.job import INPUT, JOB, OUTPUT
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.registry import find_module

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

_SCALARS = {"type": ["string", "number", "boolean"]}
_TEXT_OR_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_NAMES = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}


def job_schema() -> dict[str, Any]:
    """Return a JSON schema (draft 2020-12) that every valid job file satisfies, except for the case of fixed words."""
    schema = _mapping(JOB)
    return {
        "$schema": SCHEMA_ID,
        "title": "worldsize job",
        "description": "A job file for any world size: a commandJob of Azure ML v2, with some additional keys.",
        **schema,
        "oneOf": [{"required": ["command"]}, {"required": ["argv"]}],
        "$defs": {
            "input": {"oneOf": [_SCALARS, _mapping(INPUT)]},
            "output": {"oneOf": [{"type": "null"}, _mapping(OUTPUT)]},
            "environment": {"oneOf": [{"type": "string"}, _mapping(ENVIRONMENT)]},
            "distribution": {"oneOf": [_distribution(name) for name in DISTRIBUTIONS]},
        },
    }


def _mapping(keys: Keys) -> dict[str, Any]:
    """Return the JSON schema of a mapping with these keys of a job file. A key without a value counts as absent, and
    other keys are not allowed."""
    properties = {
        name: {"description": key.doc, "anyOf": [_value(key), {"type": "null"}]} for name, key in keys.items()
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _value(key: Key) -> dict[str, Any]:
    if key.kind in _FIXED:
        return _FIXED[key.kind]
    if key.kind == "wing":
        wing = find_module(key.home)
        return _mapping(wing.KEYS) if wing else {"type": "object"}
    return _DEPENDING[key.kind](key)


def _all_named(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "propertyNames": _NAMES, "additionalProperties": items}


def _all(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": items}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _text(key: Key) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    if key.choices:
        schema["enum"] = list(key.choices)
    if not key.blank:
        schema["pattern"] = "\\S"
    return schema


def _bounds(key: Key) -> dict[str, float]:
    bounds = {"minimum": key.minimum, "maximum": key.maximum, "exclusiveMinimum": key.above}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _number(kind: str, key: Key) -> dict[str, Any]:
    schema = {"type": kind, **_bounds(key)}
    return {"anyOf": [schema, {"type": "string", "pattern": "^\\s*[0-9]+\\s*$"}]} if key.quoted else schema


def _distribution(name: str) -> dict[str, Any]:
    """Return the JSON schema of the kind of distribution `name` in a job file. It allows its type, in upper or lower
    case, its keys, and all other keys, because Azure's own samples contain some."""
    schema = _mapping(DISTRIBUTIONS[name].keys())
    letters = "".join(f"[{letter.upper()}{letter}]" for letter in name)
    schema["properties"]["type"] = {"type": "string", "pattern": f"^{letters}$", "description": "Distribution type."}
    return {**schema, "required": ["type"], "additionalProperties": True}


_FIXED: Mapping[str, dict[str, Any]] = {
    "inputs": _all_named({"$ref": "#/$defs/input"}),
    "outputs": _all_named({"$ref": "#/$defs/output"}),
    "environment": {"$ref": "#/$defs/environment"},
    "distribution": {"$ref": "#/$defs/distribution"},
    "as_text": _SCALARS,
    "flag": {"type": "boolean"},
    "words": _TEXT_OR_TEXTS,
    "requirements": _TEXT_OR_TEXTS,
    "places": _TEXT_OR_TEXTS,
    "python": _SCALARS,
    "text_map": _all({"type": ["string", "number", "boolean", "null"]}),
    "labels": _all({"type": ["string", "number", "boolean", "null"]}),
    "conda": {"type": ["string", "object"]},
    "any": {"type": "object"},
    "preload": {
        "anyOf": [
            {"type": "string", "pattern": "^([Aa][Uu][Tt][Oo]|[Oo][Ff][Ff])$"},
            {"enum": [False]},  # a plain `off`, in YAML
            {"type": "array", "items": {"type": "string"}},
        ]
    },
    "search": _all(_list(_SCALARS)),
    "matrix": _all_named(_list(_SCALARS)),
}
"""The schemas that depend only on the kind of key, by this kind."""

_DEPENDING: Mapping[str, Callable[[Key], dict[str, Any]]] = {
    "text": _text,
    "path": _text,
    "texts": lambda key: _list(_text(key)),
    "paths": lambda key: _list(_text(key)),
    "int": lambda key: _number("integer", key),
    "number": lambda key: _number("number", key),
    "object": lambda key: _mapping(key.keys),
    "objects": lambda key: _all(_mapping(key.keys)),
    "records": lambda key: _list(_mapping(key.keys)),
    "build": lambda key: {"oneOf": [_mapping(key.keys), _list({"oneOf": [{"type": "string"}, _mapping(STEP)]})]},
}
"""Functions that create the schemas that depend on more of the key than its kind, by this kind."""
