"""Reading `stage:`; loaded only where somebody says it."""

from __future__ import annotations

from typing import Any

from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.keys.stage import STAGE
from worldsize.jobspec.paths import absolute_path, is_malformed
from worldsize.jobspec.reading.environment import ENVIRONMENT_READERS
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import mapping_of, read_keys
from worldsize.jobspec.stage import staging_spec_of


def read_stage(node: YamlNode, path: str, key: Key, report: Problems) -> dict[str, Any] | None:
    nodes = mapping_of(node, path, report)
    if nodes is None:
        return None
    count = len(report.problems)
    values = read_keys(nodes, path, STAGE, report, ENVIRONMENT_READERS)
    if len(report.problems) > count:
        return None
    if "data" in values:
        for name in filter(lambda name: is_malformed(values["data"][name]), values["data"]):
            report.add(node, f"{path}.data.{name}", "is no address that can be read")
            return None
        values["data"] = {name: absolute_path(uri, report.base) for name, uri in values["data"].items()}
    try:
        staging_spec_of(values)
    except ValueError as error:
        report.add(node, path, str(error))
        return None
    return values
