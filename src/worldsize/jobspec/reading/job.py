"""Conversion of a tree of values to a Job, used for files, overrides and Python alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from worldsize.common.named_tuple import Any
from worldsize.jobspec.distribution import DISTRIBUTIONS, Distribution, kind_names
from worldsize.jobspec.job import MAX_RANKS, Input, InputValue, Job, Limits, Output, Resources, Watchdog, command_text
from worldsize.jobspec.keys.job import (
    FOR_THE_SERVICE_IN_INPUTS,
    INPUT,
    JOB,
    OUTPUT,
    SET_BY_THE_SERVICE,
    SET_BY_THE_SERVICE_IN_SERVICES,
)
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.reading.kind import component_mark, refuse_other_kinds
from worldsize.jobspec.reading.matrix import check_array, read_matrix
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, value_description
from worldsize.jobspec.reading.values import READERS, ValueReader, join, mapping_of, read_keys, read_text, text_fault

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ASSET_NAME = r"[A-Za-z0-9_-]{1,255}"
_JOB_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"


def read_job(node: YamlNode, report: Problems, source: str) -> Job:
    """Convert `node`, the tree of values of a job file or of a job in Python, to a Job. Problems are added to `report`;
    call `report.check()` before using the job. `source` names the job's origin.

    Raise JobError at once if the tree is no command job at all, since further problems would not help the user.
    """
    nodes = mapping_of(node, "", report)
    if report.problems or refuse_other_kinds(nodes, report):
        report.check()
        return Job()
    mark = component_mark(nodes)
    if mark:
        from worldsize.jobspec.reading.component import job_nodes

        nodes = job_nodes(nodes, mark, report)
    nodes = _without_service_keys({name: item for name, item in nodes.items() if name != "$schema"}, report)
    values = read_keys(nodes, "", JOB, report, JOB_READERS)
    _check_identity(nodes, report)
    _check_name(nodes, values, report)
    _check_command(node, nodes, values, report)
    if "argv" in values:
        values["command"] = command_text(values["argv"])
    if "batch_script" in values:
        from worldsize.jobspec.batch_script import script_reader

        values = script_reader().with_script_values(nodes, values, report)
    for name, type_ in (("resources", Resources), ("limits", Limits), ("watchdog", Watchdog)):
        if name in values:
            values[name] = type_(**values[name])
    if "input_types" in values:
        from worldsize.jobspec.reading.input_types import with_input_types

        values.update(with_input_types(nodes, values, report))
    job = Job(source=source, **values)
    _check_ranks(nodes, job, report)
    check_array(nodes, job, report)
    return job


def _without_service_keys(nodes: dict[str, YamlNode], report: Problems) -> dict[str, YamlNode]:
    """Return the entries `nodes` of a job without those that only the Azure ML service sets, with a warning for each. A
    file that was made from a job of the service contains them."""
    left = without_keys(nodes, "", SET_BY_THE_SERVICE, report)
    services = left.get("services")
    if services is None or not isinstance(services.value, dict):
        return left
    found = {}
    for name, item in services.value.items():
        if isinstance(item.value, dict):
            path = join("services", name[:60])
            item = item._replace(value=without_keys(item.value, path, SET_BY_THE_SERVICE_IN_SERVICES, report))
        found[name] = item
    return {**left, "services": services._replace(value=found)}


def without_keys(
    nodes: dict[str, YamlNode],
    path: str,
    names: tuple[str, ...],
    report: Problems,
    what: str = "is set by the service; ignored",
) -> dict[str, YamlNode]:
    for name in names:
        if name in nodes:
            report.warn(nodes[name], join(path, name), what)
    return {name: item for name, item in nodes.items() if name not in names}


def _check_identity(nodes: dict[str, YamlNode], report: Problems) -> None:
    identity = nodes.get("identity")
    if identity is not None and isinstance(identity.value, dict) and "type" not in identity.value:
        report.add(identity, "identity.type", "is missing", "one of: managed, user_identity, aml_token")


def _check_name(nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems) -> None:
    name = values.get("name")
    if name is not None and not re.fullmatch(_JOB_NAME, name):
        what = f"{name!r:.60} is not a job's name"
        report.add(nodes["name"], "name", what, "use letters, digits, '-', '_' and '.', at most 255 of them")


def _check_command(node: YamlNode, nodes: dict[str, YamlNode], values: dict[str, Any], report: Problems) -> None:
    given = [name for name in ("command", "argv", "batch_script") if name in nodes]
    if len(given) > 1:
        report.add(nodes[given[-1]], given[-1], f"cannot be combined with {given[0]}", "keep one of them")
    elif not given or nodes[given[0]].value is None:
        report.add(nodes[given[0]] if given else node, "command", "is missing", "set the command of each rank")
    elif given == ["argv"] and "argv" in values and not (values["argv"] and values["argv"][0]):
        report.add(nodes["argv"], "argv", "has no program")


def _check_ranks(nodes: dict[str, YamlNode], job: Job, report: Problems) -> None:
    if job.distribution is None:
        return
    ranks = job.distribution.world_size(job.resources.instance_count)
    if ranks > MAX_RANKS:
        key = "process_count_per_instance"
        path = join("distribution", key) if key in job.distribution._fields else "distribution"
        node = nodes["distribution"] if "distribution" in nodes else nodes["batch_script"]
        report.add(node, path, f"{ranks} ranks are more than the limit of {MAX_RANKS}")


def read_distribution(node: YamlNode, path: str, key: Key, report: Problems) -> Distribution | None:
    """Read `distribution:` of a job file from `node` and return the Distribution of the kind that its `type` names;
    None if it is absent or wrong. A key that the kind does not have only causes a warning; a wrong type or size is a
    problem in `report`."""
    if node.value is None:
        return None
    nodes = mapping_of(node, path, report)
    if not isinstance(node.value, dict):
        return None
    kind = nodes.get("type")
    if kind is None or kind.value is None:
        report.add(kind or node, join(path, "type"), "is missing", f"one of: {', '.join(DISTRIBUTIONS)}")
        return None
    name = read_text(kind, join(path, "type"), Key("text", "", choices=kind_names(kind.text)), report)
    if name is None:
        return None
    keys = DISTRIBUTIONS[name].keys()
    known = {each: item for each, item in nodes.items() if each in keys}
    for each, item in nodes.items():
        if each not in keys and each != "type":
            report.warn(item, join(path, each), f"is not a key of {name}; ignored")
    return DISTRIBUTIONS[name](**read_keys(known, path, keys, report))


def _named_entries(node: YamlNode, path: str, report: Problems) -> dict[str, YamlNode]:
    """Return the entries of a job's `inputs` or `outputs`, by name, whose names can be used in ${{…}} and in a
    variable's name. For other names, a problem is added to `report`."""
    nodes = mapping_of(node, path, report)
    hint = "use letters, digits and '_', not a digit first"
    for name, item in nodes.items():
        if not re.fullmatch(_NAME, name):
            report.add(item, join(path, name[:60]), "is not a name", hint)
    return {name: item for name, item in nodes.items() if re.fullmatch(_NAME, name)}


def _read_inputs(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, InputValue]:
    values = {
        name: _read_input(item, join(path, name), report) for name, item in _named_entries(node, path, report).items()
    }
    return {name: value for name, value in values.items() if value is not None}


def _read_input(node: YamlNode, path: str, report: Problems) -> InputValue | None:
    value = node.value
    if value is None and node.loose:
        return node.text
    if isinstance(value, str):
        fault = text_fault(value)
        if fault:
            report.add(node, path, fault)
        return value
    if isinstance(value, float) and node.line and not isfinite(value):
        report.warn(node, path, f"is {node.text}, which Azure's client refuses")
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, dict) and tuple(value) == ("value",):
        return _read_input(value["value"], join(path, "value"), report)
    if not isinstance(value, dict):
        found = f"found {value_description(node)}"
        report.add(node, path, "expected a literal or a mapping with a path, " + found)
        return None
    count = len(report.problems)
    keys = without_keys(value, path, FOR_THE_SERVICE_IN_INPUTS, report, "has a meaning for the service only; ignored")
    read = Input(**read_keys(keys, path, INPUT, report))
    if read.path is None and not read.optional and len(report.problems) == count:
        report.add(node, join(path, "path"), "is missing", "or set optional: true")
    return read


def _read_outputs(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Output]:
    outputs = {}
    for name, item in _named_entries(node, path, report).items():
        nodes = {} if item.value is None else mapping_of(item, join(path, name), report)
        outputs[name] = Output(**read_keys(nodes, join(path, name), OUTPUT, report))
        _check_registration(nodes, join(path, name), outputs[name], report)
    return outputs


def _check_registration(nodes: dict[str, YamlNode], path: str, output: Output, report: Problems) -> None:
    if output.version is not None and output.name is None and "name" not in nodes:
        report.add(nodes["version"], join(path, "version"), "belongs to a name", "set name too, or leave it out")
    if output.name is not None and not re.fullmatch(_ASSET_NAME, output.name):
        what = f"{output.name!r:.60} is not a name that a service can register"
        report.add(nodes["name"], join(path, "name"), what, "use letters, digits, '-' and '_', at most 255 of them")


def _read_environment(node: YamlNode, path: str, key: Key, report: Problems) -> str | dict[str, Any] | None:
    from worldsize.jobspec.reading.environment import read_environment

    return read_environment(node, path, key, report)


def _read_by_wing(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any] | None:
    from worldsize.registry import MISSING, find_module

    wing = find_module(key.home)
    if wing is None:
        report.add(node, path, MISSING, "pip install worldsize")
        return None
    found: dict[str, Any] | None = wing.read(node, path, key, report)
    return found


JOB_READERS: Mapping[str, ValueReader] = {
    **READERS,
    "inputs": _read_inputs,
    "outputs": _read_outputs,
    "environment": _read_environment,
    "wing": _read_by_wing,
    "distribution": read_distribution,
    "matrix": read_matrix,
}
