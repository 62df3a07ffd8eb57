"""The keys of job files and of the configuration, as their tables have them."""

from __future__ import annotations

from collections.abc import Iterator

from scripts.documentation.tables import code, table

from worldsize.jobspec.config.compute_keys import COMPUTE_KEYS, keys_of_type
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES
from worldsize.jobspec.config.files import TOP_KEYS
from worldsize.jobspec.config.site import RULE
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.keys.environment import ENVIRONMENT, STEP
from worldsize.jobspec.keys.job import INPUT, JOB, OUTPUT
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.registry import find_module

_VALUES = {
    "text": "text",
    "as_text": "text or number",
    "path": "path or URI",
    "paths": "list of paths",
    "int": "whole number",
    "number": "number",
    "flag": "`true`, `false`",
    "texts": "list of texts",
    "preload": "`auto`, `off`, list of modules",
    "words": "text, or list of texts",
    "text_map": "names to texts",
    "labels": "names to texts",
    "any": "mapping",
    "object": "mapping",
    "objects": "mapping of mappings",
    "records": "list of mappings",
    "inputs": "mapping",
    "outputs": "mapping",
    "environment": "text or mapping",
    "conda": "path or mapping",
    "python": "text or number",
    "requirements": "text, or list of texts",
    "places": "text, or list of texts",
    "build": "mapping, or list of steps",
    "distribution": "mapping",
    "matrix": "names to lists",
    "search": "names to lists",
    "wing": "mapping",
}


def job_rows(part: str) -> str:
    """Return the table of the keys of a job: all, or those of a part of it: "inputs", "environment", "distribution"."""
    if part == "distribution":
        parts = [
            "**`type: %s`**\n\n%s" % (name, _table(kind.keys()) if kind.keys() else "No other keys.")
            for name, kind in DISTRIBUTIONS.items()
        ]
        return "\n\n".join(parts)
    return _table({"inputs": INPUT, "outputs": OUTPUT, "environment": ENVIRONMENT, "step": STEP}.get(part, JOB))


def configuration_rows(kind: str) -> str:
    """Return the table of the keys of worldsize.toml; with a type of computes, of the keys that only this type has;
    with "compute", of the keys that all computes have; with "forbidden", of the keys of the site's rules."""
    if kind == "compute":
        return _table(COMPUTE_KEYS)
    if kind == "forbidden":
        return _table(RULE)
    if kind in COMPUTE_TYPES:
        return _table({name: key for name, key in (keys_of_type(kind) or {}).items() if name not in COMPUTE_KEYS})
    return _table(TOP_KEYS)


def _table(keys: Keys) -> str:
    return table(("key", "value", ""), _rows(keys))


def _rows(keys: Keys, prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, key in keys.items():
        yield code(prefix + name), _value(key), key.doc.replace("\\", r"\\")
        if key.kind == "wing":
            wing = find_module(key.home)
            yield from _rows(wing.KEYS if wing else {}, prefix + name + ".")
        elif key.kind in ("object", "objects", "records", "build"):
            inside = {"object": "", "build": ""}.get(key.kind, "…." if key.kind == "objects" else "[].")
            yield from _rows(key.keys, prefix + name + ("" if inside == "[]." else ".") + inside)


def _value(key: Key) -> str:
    if key.choices:
        return ("list of " if key.kind == "texts" else "") + ", ".join(map(code, key.choices))
    text = _VALUES[key.kind]
    if key.minimum is not None and key.maximum is not None:
        text += ", %s to %s" % (_number(key.minimum), _number(key.maximum))
    elif key.minimum is not None:
        text += ", at least %s" % _number(key.minimum)
    elif key.above is not None:
        text += ", above %s" % _number(key.above)
    return text


def _number(value: float) -> str:
    return "{:,}".format(int(value) if value == int(value) else value)
