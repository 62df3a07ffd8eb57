"""The JSON schemas of what verbs print with `-o json`. They are data in the files of `output_schemas/`. Each file has
schemas by verb (`verbs`), and parts that the schemas of all files share (`$defs`)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from worldsize.registry import source_file
from worldsize.wings.project.schema import SCHEMA_ID

_PART = "#/$defs/"


def described_verbs() -> list[str]:
    """Return the verbs of worldsize whose output with `-o json` has a schema, sorted. A verb with an action is two
    words: "env list"."""
    return sorted(_read("verbs"))


def verb_schema(verb: str) -> dict[str, Any]:
    """Return the JSON schema (draft 2020-12) of what the verb prints with `-o json`. It is open: later releases may add
    keys. Raise KeyError for a verb without a schema."""
    schema, parts = _read("verbs")[verb], _read("$defs")
    title = {"$schema": SCHEMA_ID, "title": f"worldsize {verb} -o json"}
    needed = sorted(set(_part_names(schema, parts)))
    return {**title, **schema, **({"$defs": {name: parts[name] for name in needed}} if needed else {})}


def find_verb(words: Sequence[str]) -> str | None:
    """Return the verb, such as "env list", with which the command line `words` (without `worldsize`) begins and whose
    JSON output has a schema; None if there is none."""
    known = _read("verbs")
    return next((verb for verb in (" ".join(words[:2]), " ".join(words[:1])) if verb in known), None)


def _read(key: str) -> dict[str, Any]:
    """Return the content of all schema files under `key` ("verbs" or "$defs"), merged into one mapping."""
    folder = source_file("wings", "project", "output_schemas")
    found: dict[str, Any] = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found.update(json.load(file).get(key, {}))
    return found


def _part_names(schema: Any, parts: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the shared parts (`$defs`) to which a JSON schema refers, and of those to which these parts
    refer."""
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _part_names(value, parts)
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        name = schema["$ref"].removeprefix(_PART)
        yield name
        yield from _part_names(parts[name], parts)
