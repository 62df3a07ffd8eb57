"""Detection of what a YAML file of Azure ML describes: a command job, a command component, or a kind that cannot be run
here."""

from __future__ import annotations

from worldsize.jobspec.keys.job import VALUE_TYPES
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode

_COMPONENT_KEYS = ("version", "is_deterministic")
_INPUT_KEYS = ("default", "min", "max", "enum")
_KEYS_OF_OTHERS = {
    "jobs": "pipeline job",
    "trial": "sweep job",
    "search_space": "sweep job",
    "sampling_algorithm": "sweep job",
    "mini_batch_size": "parallel job",
    "mini_batch_error_threshold": "parallel job",
    "input_data": "parallel job",
    "target_column_name": "AutoML job",
    "training_data": "AutoML job",
    "primary_metric": "AutoML job",
    "entry": "Spark job",
}
"""Keys that only other kinds of files have, if there is no `command`."""

_SCHEMAS_OF_OTHERS = {
    "pipelinejob": "pipeline job",
    "sweepjob": "sweep job",
    "automljob": "AutoML job",
    "paralleljob": "parallel job",
    "sparkjob": "Spark job",
    "importjob": "import job",
    "pipelinecomponent": "pipeline component",
    "parallelcomponent": "parallel component",
    "sparkcomponent": "Spark component",
    "datatransfercomponent": "data transfer component",
    "datatransferimportcomponent": "data transfer component",
    "datatransferexportcomponent": "data transfer component",
    "environment": "environment",
    "schedule": "schedule",
    "data": "data asset",
    "model": "model",
    "workspace": "workspace",
}
_TYPES_OF_OTHERS = {"automl": "AutoML", "spark": "Spark"}
_HINT = "only command jobs can"


def refuse_other_kinds(nodes: dict[str, YamlNode], report: Problems) -> bool:
    """Return whether an Azure ML file with the entries `nodes` describes something other than a command job or
    component, such as a pipeline or sweep job. If so, add a problem that names the kind to `report`."""
    kind = nodes.get("type")
    if kind is not None and isinstance(kind.value, str) and kind.value.lower() != "command":
        name = _TYPES_OF_OTHERS.get(kind.value.lower(), kind.value)
        report.add(kind, "type", f"a {name:.40} job cannot be run here", _HINT)
        return True
    if "command" in nodes or "argv" in nodes or "batch_script" in nodes:
        return False
    for name, other in _KEYS_OF_OTHERS.items():
        if name in nodes:
            report.add(nodes[name], name, f"{_with_article(other)} cannot be run here", _HINT)
            return True
    other = _SCHEMAS_OF_OTHERS.get(_schema_name(nodes), "")
    if other:
        report.add(nodes["$schema"], "$schema", f"{_with_article(other)} cannot be run here", _HINT)
    return bool(other)


def component_mark(nodes: dict[str, YamlNode]) -> str | None:
    """Return the key that shows that an Azure ML file with the entries `nodes` describes a command component; None if
    it describes a job.

    The `$schema` decides if it names either. Without one, a component has a version, or the key `is_deterministic`, or
    an input that declares a type of values. A job has none of these.
    """
    name = _schema_name(nodes)
    if name in ("commandcomponent", "commandjob"):
        return "$schema" if name == "commandcomponent" else None
    for key in _COMPONENT_KEYS:
        if key in nodes:
            return key
    inputs = nodes["inputs"].value if "inputs" in nodes else None
    for each, item in inputs.items() if isinstance(inputs, dict) else ():
        if isinstance(item.value, dict) and _is_declaration(item.value):
            return f"inputs.{each:.60}"
    return None


def _is_declaration(keys: dict[str, YamlNode]) -> bool:
    if any(key in keys for key in _INPUT_KEYS):
        return True
    return "type" in keys and keys["type"].value in VALUE_TYPES


def _schema_name(nodes: dict[str, YamlNode]) -> str:
    """Return the name in the `$schema` of an Azure ML file, in lower case: "commandjob" for
    https://azuremlschemas.azureedge.net/latest/commandJob.schema.json; "" without a schema."""
    node = nodes.get("$schema")
    text = node.value if node is not None and isinstance(node.value, str) else ""
    return text.rstrip("/").rpartition("/")[2].partition(".")[0].lower()


def _with_article(name: str) -> str:
    return ("an " if name[0] in "AEIOUaeiou" else "a ") + name
