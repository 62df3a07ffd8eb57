"""Reader of Azure's command components as jobs. A component's declarations of inputs become `input_types`, its defaults
become `inputs`.

A component names neither a compute nor a time limit. It may nevertheless contain a job's keys, with a warning. Keys
that Azure's client requires of a component, such as its name, are required here too.
"""

from __future__ import annotations

import re

from worldsize.jobspec.keys.job import ASSET_TYPES, INPUT_MODES, JOB, OUTPUT_MODES, VALUE_TYPES
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.nearest import did_you_mean, nearest_word
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import READERS, join, mapping_of, read_as_text, read_flag, read_keys, read_text

_COMPONENT_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PORT_TYPES = (*ASSET_TYPES, "path")
_PORT_MODES = (*INPUT_MODES, *OUTPUT_MODES, "link")
_VALUE_KEYS: Keys = {
    "type": Key("text", "", choices=VALUE_TYPES),
    "optional": Key("flag", ""),
    "default": Key("scalar", ""),
    "description": Key("text", ""),
    "min": Key("scalar", ""),
    "max": Key("scalar", ""),
    "enum": Key("texts", ""),
}
_PORT_KEYS: Keys = {
    "type": Key("text", "", choices=_PORT_TYPES),
    "optional": Key("flag", ""),
    "description": Key("text", ""),
    "mode": Key("text", "", choices=_PORT_MODES),
}
_OF_COMPONENTS = (
    "$schema", "type", "name", "version", "display_name", "description", "tags", "properties", "is_deterministic",
    "inputs", "outputs", "command", "code", "environment", "distribution", "resources", "queue_settings",
    "additional_includes",
)  # fmt: skip
_SERVICE_ONLY = ("id", "creation_context", "latest_version", "auto_delete_setting", "intellectual_property")


def job_nodes(nodes: dict[str, YamlNode], mark: str, report: Problems) -> dict[str, YamlNode]:
    """Convert `nodes`, the entries of an Azure ML command component, to the entries of a job and return these. `mark`
    is the key that identified the file as a component. Problems and warnings are added to `report`."""
    if mark != "$schema":
        node = nodes[mark.partition(".")[0]]
        what = "only a component has this key, so the file is read as a command component; a $schema that ends in "
        report.warn(node, mark, what + "commandComponent.schema.json marks a component, commandJob.schema.json a job")
    _check_identity(nodes, report)
    found = {}
    for name, node in nodes.items():
        if name in ("version", "is_deterministic", *_SERVICE_ONLY):
            continue
        if name not in _OF_COMPONENTS:
            if name not in JOB:
                near = nearest_word(name, _OF_COMPONENTS)
                report.warn(
                    node,
                    name[:60],
                    "is not a key of a component; ignored" + (f" (did you mean {near!r}?)" if near else ""),
                )
                continue
            report.warn(node, name, "is a key of a job, which Azure's components do not have")
        found[name] = node
    if "inputs" in nodes:
        found.pop("inputs")
        found.update(_inputs(nodes["inputs"], report))
    if "outputs" in nodes:
        found["outputs"] = _outputs(nodes["outputs"], report)
    return found


def _check_identity(nodes: dict[str, YamlNode], report: Problems) -> None:
    name = nodes.get("name")
    hint = "lower-case letters, digits and '_', a letter first"
    if name is None or name.value is None:
        first = next(iter(nodes.values()))
        report.add(name or first, "name", "is missing, and a component needs one", hint)
    elif isinstance(name.value, str) and not _COMPONENT_NAME.fullmatch(name.value):
        report.add(name, "name", f"{name.value!r:.60} is not a component's name", hint)
    if "version" in nodes and nodes["version"].value is not None:
        read_as_text(nodes["version"], "version", Key("as_text", ""), report)
    if "is_deterministic" in nodes:
        read_flag(nodes["is_deterministic"], "is_deterministic", Key("flag", ""), report)


def _inputs(node: YamlNode, report: Problems) -> dict[str, YamlNode]:
    """Convert the `inputs` of an Azure ML component to the entries `inputs` (the default values) and `input_types` (the
    declarations) of a job, and return these two."""
    values: dict[str, YamlNode] = {}
    types: dict[str, YamlNode] = {}
    for name, item in mapping_of(node, "inputs", report).items():
        path = join("inputs", name[:60])
        keys = mapping_of(item, path, report)
        kind = keys.get("type")
        if not isinstance(item.value, dict):
            continue
        if kind is None or kind.value is None:
            report.add(item, join(path, "type"), "is missing", f"one of: {', '.join((*VALUE_TYPES, *_PORT_TYPES))}")
            continue
        is_value = kind.value in VALUE_TYPES
        read = _read_declaration(keys, path, is_value, report)
        if read is None:
            continue
        types[name] = item._replace(value=read)
        default = keys.get("default")
        if default is not None and default.value is not None:
            values[name] = default
        elif "optional" in read and read["optional"].value is True:
            values[name] = item._replace(value={"optional": read["optional"]})
    return {"inputs": node._replace(value=values), "input_types": node._replace(value=types)}


def _read_declaration(
    keys: dict[str, YamlNode], path: str, is_value: bool, report: Problems
) -> dict[str, YamlNode] | None:
    """Read `keys`, the declaration of one input of a component, and return the entries of a job's input type; None,
    with problems in `report`, if Azure's client refuses the declaration. `is_value` is whether it declares a value
    rather than data."""
    count = len(report.problems)
    if not is_value and "default" in keys:
        report.add(keys["default"], join(path, "default"), "is not for data", "set its path: --set " + path + "=PATH")
        keys = {name: item for name, item in keys.items() if name != "default"}
    table = _VALUE_KEYS if is_value else _PORT_KEYS
    read = read_keys(keys, path, table, report, _READERS, of=path)
    kind = read.get("type")
    for name in ("min", "max"):
        if name in read and kind in ("string", "boolean"):
            report.add(keys[name], join(path, name), f"is not for a {kind}", "leave it out")
    _check_default(keys, path, kind, report)
    if len(report.problems) > count:
        return None
    entries = {
        name: item for name, item in keys.items() if name in read and name not in ("default", "min", "max", "mode")
    }
    for name in ("min", "max"):
        if name in read:
            number = _number(read[name])
            if number is None:
                report.add(keys[name], join(path, name), f"is not a number: {keys[name].text:.40}")
                return None
            entries[name] = keys[name]._replace(value=number, text=repr(number))
    if read.get("mode") in INPUT_MODES:
        entries["mode"] = keys["mode"]
    return entries


def _check_default(keys: dict[str, YamlNode], path: str, kind: str | None, report: Problems) -> None:
    """Check that the default value in `keys`, the declaration of a component's input, can be read as the declared type
    `kind`, and add a problem to `report` if not. Whether the value is allowed is checked only if the job sets no other
    value."""
    from worldsize.jobspec.input_types import typed_value
    from worldsize.jobspec.job import InputType

    node = keys.get("default")
    if node is None or kind not in VALUE_TYPES or not isinstance(node.value, (str, bool, int, float)):
        return
    try:
        typed_value(InputType(kind), node.value)
    except ValueError as error:
        report.add(node, join(path, "default"), str(error), f"the input's type is {kind}")


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, str) else value  # type: ignore[return-value]
    except ValueError:
        return None


def _read_scalar(node: YamlNode, path: str, key: Key, report: Problems) -> object:
    if isinstance(node.value, (str, bool, int, float)):
        return node.value
    report.add(node, path, f"expected a literal, found {node.kind}")
    return None


def _read_choice(node: YamlNode, path: str, key: Key, report: Problems) -> str | None:
    """Return the text in `node` if it is one of `key.choices`; None, with a problem in `report`, if it is not. Case
    counts in a component. Without choices, any text is accepted."""
    if not key.choices:
        return read_text(node, path, key, report)
    if isinstance(node.value, str) and node.value in key.choices:
        return node.value
    shown = node.text or node.kind
    report.add(node, path, f"{shown!r:.60} is not one of the allowed values", did_you_mean(shown, key.choices))
    return None


def _outputs(node: YamlNode, report: Problems) -> YamlNode:
    """Convert the `outputs` of an Azure ML component to those of a job and return them. An output that is a value,
    which a pipeline would read, becomes a file."""
    found: dict[str, YamlNode] = {}
    for name, item in mapping_of(node, "outputs", report).items():
        path = join("outputs", name[:60])
        keys = dict(mapping_of(item, path, report))
        kind = keys.get("type")
        if not isinstance(item.value, dict):
            continue
        if kind is None or kind.value is None:
            report.add(item, join(path, "type"), "is missing", f"one of: {', '.join(_PORT_TYPES)}")
            continue
        if kind.value in VALUE_TYPES:
            keys["type"] = kind._replace(value="uri_file", text="uri_file")
        else:
            _read_choice(kind, join(path, "type"), Key("text", "", choices=_PORT_TYPES), report)
            if kind.value == "path":
                keys["type"] = kind._replace(value="uri_folder", text="uri_folder")
        mode = keys.get("mode")
        if mode is not None and mode.value in _PORT_MODES and mode.value not in OUTPUT_MODES:
            del keys["mode"]
        found[name] = item._replace(value=keys)
    return node._replace(value=found)


_READERS = {**READERS, "text": _read_choice, "scalar": _read_scalar}
