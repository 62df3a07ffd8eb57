"""Reading `stage:`; loaded only where somebody says it."""

from __future__ import annotations

from typing import Any

from worldsize.spec.environmentreader import ENVIRONMENT_READERS
from worldsize.spec.key import Key
from worldsize.spec.paths import absolute, is_malformed
from worldsize.spec.reading import mapping_of, read_keys
from worldsize.spec.report import Report
from worldsize.spec.stage import stage_of
from worldsize.spec.stagekeys import STAGE
from worldsize.spec.tree import Node


def read_stage(node: Node, path: str, key: Key, report: Report) -> dict[str, Any] | None:
    nodes = mapping_of(node, path, report)
    if nodes is None:
        return None
    count = len(report.problems)
    values = read_keys(nodes, path, STAGE, report, ENVIRONMENT_READERS)
    if len(report.problems) > count:
        return None
    if "data" in values:
        for name in filter(lambda name: is_malformed(values["data"][name]), values["data"]):
            report.problem(node, "%s.data.%s" % (path, name), "is no address that can be read")
            return None
        values["data"] = {name: absolute(uri, report.base) for name, uri in values["data"].items()}
    try:
        stage_of(values)
    except ValueError as error:
        report.problem(node, path, str(error))
        return None
    return values
