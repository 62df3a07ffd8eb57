"""The tables that only the site's file may have: `[defaults]`, values of job keys for jobs that do not set them, and
`[[forbidden]]`, values of job keys that jobs may not set.

    [defaults]
    "limits.timeout" = 86400

    [[forbidden]]
    key = "slurm.exclusive"
    why = "whole nodes are for the partition `large`"
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from worldsize.common.named_tuple import Any
from worldsize.jobspec.config.config import ForbiddenRule
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.keys.slurm import SLURM
from worldsize.jobspec.reading.job import JOB_READERS
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.set_option import OPEN_MAPS, split_path
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import READERS, join, mapping_of, read_as_text, read_keys

RULE: Keys = {
    "key": Key("text", "A key of a job, such as slurm.exclusive; also all keys below it.", blank=False),
    "value": Key("words", "The forbidden value, or several; without it every value is."),
    "computes": Key("texts", "The computes for which the rule holds; without it all.", blank=False),
    "why": Key("text", "The reason, which the message shows.", blank=False),
}
_OF_ONE_JOB = frozenset((
    "$schema", "type", "name", "display_name", "description", "command", "argv", "batch_script", "code",
    "additional_includes", "environment", "distribution", "autotune", "inputs", "input_types", "outputs",
    "parent_job_name", "data_parallel", "virtual_gpus", "stage", "matrix", "count", "at_once",
    "resources.instance_count",
))  # fmt: skip
"""Keys that describe what one job does and how large it is. A value for all jobs would change their meaning."""
_OPTION = "slurm.sbatch_options."


def read_defaults(roots: Iterable[YamlNode], report: Problems) -> dict[str, YamlNode]:
    """Return the values of `[defaults]` in `roots`, the tables of the site's files, by their keys' YAML paths. Problems
    are added to `report`: unknown keys, wrong values, and keys that cannot have a default."""
    found: dict[str, YamlNode] = {}
    for root in roots:
        if "defaults" in root.value:
            report.base = os.path.dirname(root.origin)
            found.update(_leaves(mapping_of(root.value["defaults"], "defaults", report), ""))
    for name, node in found.items():
        path = split_path(name)
        if name == "compute":
            report.add(node, "defaults.compute", "is not a default of jobs", "set default_compute")
        elif path[0] in _OF_ONE_JOB or name in _OF_ONE_JOB:
            report.add(node, f"defaults.{name:.100}", "belongs to one job, so a site cannot set it", "leave it out")
        else:
            for step in reversed(path[1:]):
                node = YamlNode({step: node}, "", node.origin, node.line)
            read_keys({path[0]: node}, "", JOB, report, JOB_READERS)
    return found


def _leaves(nodes: dict[str, YamlNode], prefix: str) -> Iterator[tuple[str, YamlNode]]:
    """Yield (YAML path, value) for each entry of a `[defaults]` table. Mappings that a job may complete key by key, as
    it may `slurm`, are split into their entries."""
    for name, node in nodes.items():
        path = join(prefix, name)
        if isinstance(node.value, dict) and _kind(path) in ("object", *OPEN_MAPS):
            yield from _leaves(node.value, path)
        else:
            yield path, node


def _kind(path: str) -> str:
    """Return the kind of the job key with the YAML path `path`; "" if there is no such key."""
    keys, kind = JOB, ""
    for step in split_path(path):
        if step not in keys:
            return ""
        keys, kind = keys[step].keys, keys[step].kind
    return kind


def read_forbidden(roots: Iterable[YamlNode], computes: Iterable[str], report: Problems) -> tuple[ForbiddenRule, ...]:
    """Return the rules of `[[forbidden]]` in `roots`, the tables of the site's files. `computes` are the names of the
    configured computes. Problems are added to `report`."""
    tables = [root.value["forbidden"] for root in roots if "forbidden" in root.value]
    found: list[ForbiddenRule | None] = []
    for table in tables:
        if not isinstance(table.value, list):
            report.add(table, "forbidden", "expected a list of tables", "write [[forbidden]] above each rule")
            continue
        found += [_read_rule(node, list(computes), report) for node in table.value]
    return tuple(rule for rule in found if rule)


def _read_rule(node: YamlNode, computes: Sequence[str], report: Problems) -> ForbiddenRule | None:
    path = "forbidden"
    nodes = mapping_of(node, path, report, RULE)
    values = read_keys(nodes, path, RULE, report, {**READERS, "words": _read_values})
    for key in ("key", "why"):
        if isinstance(node.value, dict) and key not in nodes:
            report.add(node, join(path, key), "is missing")
    if "key" in values:
        _check_key(nodes["key"], values["key"], report)
    for name in values.get("computes", ()):
        if name not in computes:
            what = f"there is no compute {name!r:.60}"
            report.add(nodes["computes"], join(path, "computes"), what, did_you_mean(name, computes, "there are"))
    if not {"key", "why"} <= set(values):
        return None
    given = tuple(map(plain_text, values.get("value", ())))
    return ForbiddenRule(normal_key(values["key"]), values["why"], node.where, given, values.get("computes", ()))


def _read_values(node: YamlNode, path: str, key: Key, report: Problems) -> tuple[Any, ...]:
    """Return the value of `value:` in a rule as a tuple of texts: a text, number or boolean, or a list of them."""
    nodes = node.value if isinstance(node.value, list) else [node]
    return tuple(text for each in nodes if (text := read_as_text(each, path, key, report)) is not None)


def _check_key(node: YamlNode, name: str, report: Problems) -> None:
    """Add a problem to `report` if the `key` of a rule, `name`, is no key of a job."""
    keys: Keys = JOB
    steps = split_path(name)
    for number, step in enumerate(steps):
        if step not in keys:
            of = ".".join(steps[:number]) or "a job"
            report.add(node, "forbidden.key", f"{step!r:.60} is not a key of {of}", did_you_mean(step, keys))
            return
        if keys[step].kind != "object":
            return  # below it are free names, or the keys of a wing
        keys = keys[step].keys


def normal_key(name: str) -> str:
    """Return the YAML path `name` of a job's key, with an option in `slurm.sbatch_options` that is also a key of
    `slurm` replaced by that key: `slurm.account` for `slurm.sbatch_options.account`."""
    if not name.startswith(_OPTION):
        return name
    option = name[len(_OPTION) :].lower().lstrip("-").replace("_", "-")
    key = option.replace("-", "_")
    return f"slurm.{key}" if key in SLURM else _OPTION + option


def plain_text(value: Any) -> str:
    """Return a value of a job's key as the text by which values are compared, regardless of case: 4 for 4.0, true for
    True."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip().lower()
