"""What verbs print with `-o json`, from the schemas in the package."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from scripts.documentation.tables import code, table

SCHEMAS = Path(__file__).resolve().parents[2] / "src" / "worldsize" / "wings" / "project" / "output_schemas"
_PART = "#/$defs/"


@cache
def read_schemas(name: str) -> dict[str, dict[str, Any]]:
    """The schemas of a file, by their headings: verbs, and parts that several verbs have."""
    content = json.loads((SCHEMAS / (name + ".json")).read_text(encoding="utf-8"))
    return {**content.get("verbs", {}), **content.get("$defs", {})}


@cache
def place_of(part: str) -> str:
    """The name of the file that has a part."""
    return next(
        path.stem
        for path in SCHEMAS.glob("*.json")
        if part in json.loads(path.read_text(encoding="utf-8")).get("$defs", {})
    )


def schema_sections(name: str) -> str:
    """Return a section for each verb and each shared part of a file of schemas."""
    return "\n\n".join("## %s\n\n%s" % (title, _section(schema)) for title, schema in read_schemas(name).items())


def _section(schema: dict[str, Any]) -> str:
    rows = list(_rows(schema, ""))
    described = schema.get("description", "")
    kind = _kind(schema)
    text = " ".join(each for each in (described, "Type: %s." % kind if kind != "object" else "") if each)
    return "\n\n".join([*([text] if text else []), *([table(("key", "type", ""), rows)] if rows else [])])


def _rows(schema: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    """One row for each key, also of the mappings inside."""
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        text = inner.get("description", "")
        if name not in required:
            text += " Not always present."
        yield code(prefix + name), _kind(inner), text.strip()
        yield from _rows(inner, prefix + name + ".")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _rows(schema["additionalProperties"], prefix + "NAME.")
    if isinstance(schema.get("items"), dict) and "$ref" not in schema["items"]:
        yield from _rows(schema["items"], (prefix.removesuffix(".") or "") + "[].")
    for key in ("anyOf", "oneOf"):
        for inner in schema.get(key, ()):
            yield from _rows(inner, prefix)


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        part = schema["$ref"].removeprefix(_PART)
        return "[%s](%s-json.md#%s)" % (part, place_of(part), part)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return ", or ".join(dict.fromkeys(_kind(each) for each in schema[key]))
    if "enum" in schema:
        return ", ".join(code("null" if each is None else str(each)) for each in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kinds = schema.get("type", "object")
    names = [kinds] if isinstance(kinds, str) else kinds
    if "array" in names and isinstance(schema.get("items"), dict):
        names = ["array of %s" % _kind(schema["items"]) if each == "array" else each for each in names]
    return ", ".join(names)
