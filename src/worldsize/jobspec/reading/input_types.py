"""Conversion of inputs to the types that the job declares for them."""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.jobspec.input_types import is_value_type, with_types
from worldsize.jobspec.job import InputType
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import join


def with_input_types(nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems) -> dict[str, Any]:
    """Return the fields `input_types`, `inputs` and, if there is one, `matrix` of a job, from the fields `values` that
    were read. Each input's value is converted to its declared type, and text stays as it was typed if text is declared.
    A value that is not allowed is kept, and reported when the job is planned."""
    types: dict[str, InputType] = {}
    for name, keys in values["input_types"].items():
        if "type" not in keys:
            report.add(nodes["input_types"].value[name], join(f"input_types.{name}", "type"), "is missing")
        types[name] = InputType(**keys)
    inputs = dict(values.get("inputs", {}))
    written = nodes["inputs"].value if "inputs" in nodes and isinstance(nodes["inputs"].value, dict) else {}
    for name, kind in types.items():
        if name in inputs:
            value, node = inputs[name], written.get(name)
            if kind.type == "string" and node is not None and node.loose and not isinstance(node.value, dict):
                value = node.text
            inputs[name] = with_types(kind, value, report.base)
    matrix = {
        name: tuple(with_types(types[name], each, "") for each in found)
        if name in types and is_value_type(types[name])
        else found
        for name, found in values.get("matrix", {}).items()
    }
    return {"input_types": types, "inputs": inputs, **({"matrix": matrix} if matrix else {})}
