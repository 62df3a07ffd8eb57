"""What `worldsize.toml` says of environments: named ones, what Azure's names mean here, where conda packages are."""

from __future__ import annotations

import os
import re
from typing import Any

from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.environment import read_environment
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import mapping_of, read_keys, read_text

CONDA: Keys = {
    "channels": Key("texts", "The channels of environments that name none.", blank=False),
    "channel_alias": Key(
        "text", "Where channels are that are named and not addresses, such as a mirror's.", blank=False
    ),
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ANY = Key("text", "", blank=False)


def flatten(table: str, node: YamlNode, report: Problems) -> dict[tuple[str, ...], YamlNode]:
    """One setting for each name in a table, so that the nearest file wins name by name."""
    entries = mapping_of(node, table, report) or {}
    if table == "environment":
        for name, item in entries.items():
            if not _NAME.fullmatch(name):
                hint = "use letters, digits, '-', '_' and '.'"
                report.add(item, f"environment.{name[:60]}", "is not an environment's name", hint)
    return {(table, name): item for name, item in entries.items()}


def read_tables(settings: dict[tuple[str, ...], YamlNode], report: Problems) -> dict[str, Any]:
    """The fields of Config that `settings` (those of `files.ENVIRONMENT_TABLES`) mean."""
    environments: dict[str, Any] = {}
    mapped: dict[str, str] = {}
    conda: dict[str, Any] = {}
    for (table, name), node in settings.items():
        report.base = os.path.dirname(node.origin)
        path = f"{table}.{name}"
        if table == "environment":
            environments[name] = read_environment(node, path, _ANY, report)
        elif table == "environment_map":
            value = read_text(node, path, _ANY, report)
            mapped[name] = str(read_environment(node, path, _ANY, report)) if value else ""
        else:
            conda.update(read_keys({name: node}, table, CONDA, report))
    return {"environments": environments, "environment_map": mapped, "conda": conda}
