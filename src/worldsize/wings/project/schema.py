"""The JSON schema of job files, for editors: made from the table that reading follows."""

from __future__ import annotations

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
    """A schema (draft 2020-12) that every job file without problems satisfies, but for the case of fixed words."""
    schema = _mapping(JOB)
    return {
        "$schema": SCHEMA_ID,
        "title": "worldsize job",
        "description": "One job file, any world size. Azure ML's v2 commandJob with a few keys more.",
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
    properties = {name: _with_null(_key(key)) for name, key in keys.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _with_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or nothing: a key without a value counts as absent."""
    description = {"description": schema.pop("description")}
    return {**description, "anyOf": [schema, {"type": "null"}]}


def _key(key: Key) -> dict[str, Any]:
    return {"description": key.doc, **_value(key)}


def _value(key: Key) -> dict[str, Any]:
    kind = key.kind
    if kind in ("inputs", "outputs"):
        items = {"$ref": f"#/$defs/{kind[:-1]}"}
        return {"type": "object", "propertyNames": _NAMES, "additionalProperties": items}
    if kind in ("environment", "distribution"):
        return {"$ref": f"#/$defs/{kind}"}
    if kind == "object":
        return _mapping(key.keys)
    if kind == "wing":
        wing = find_module(key.home)
        return _mapping(wing.KEYS) if wing else {"type": "object"}
    if kind == "objects":
        return {"type": "object", "additionalProperties": _mapping(key.keys)}
    if kind == "build":
        steps = {"type": "array", "items": {"oneOf": [{"type": "string"}, _mapping(STEP)]}}
        return {"oneOf": [_mapping(key.keys), steps]}
    if kind == "records":
        return {"type": "array", "items": _mapping(key.keys)}
    if kind in ("int", "number"):
        return {"type": "integer" if kind == "int" else "number", **_bounds(key)}
    if kind == "texts":
        return {"type": "array", "items": _text(key)}
    return {
        "text": _text(key),
        "path": _text(key),
        "as_text": _SCALARS,
        "flag": {"type": "boolean"},
        "words": _TEXT_OR_TEXTS,
        "requirements": _TEXT_OR_TEXTS,
        "places": _TEXT_OR_TEXTS,
        "python": _SCALARS,
        "text_map": {"type": "object", "additionalProperties": _SCALARS},
        "labels": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
        "conda": {"type": ["string", "object"]},
        "any": {"type": "object"},
        "search": {"type": "object", "additionalProperties": {"type": "array", "items": _SCALARS}},
        "matrix": {
            "type": "object",
            "propertyNames": _NAMES,
            "additionalProperties": {"type": "array", "items": _SCALARS},
        },
    }[kind]


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


def _distribution(name: str) -> dict[str, Any]:
    """One kind: its type in any case, its keys, and whatever else Azure's own samples hold."""
    schema = _mapping(DISTRIBUTIONS[name].keys())
    letters = "".join(f"[{letter.upper()}{letter}]" for letter in name)
    schema["properties"]["type"] = {"type": "string", "pattern": f"^{letters}$", "description": "The kind."}
    return {**schema, "required": ["type"], "additionalProperties": True}
