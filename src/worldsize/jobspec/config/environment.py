"""Tables of `worldsize.toml` about environments: named ones, the meanings of Azure's names here, and the places of
conda packages."""

from __future__ import annotations

import os

from worldsize.common.named_tuple import Any
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.environment import read_environment
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import read_keys, read_text

CONDA: Keys = {
    "channels": Key("texts", "The channels of environments without channels of their own.", blank=False),
    "channel_alias": Key("text", "The address of named channels, such as a mirror.", blank=False),
}

_ANY = Key("text", "", blank=False)


def read_tables(settings: dict[tuple[str, ...], YamlNode], report: Problems) -> dict[str, Any]:
    """Return the fields `environments`, `environment_map` and `conda` of Config, read from the entries `settings` of
    these tables in worldsize.toml files. Problems are added to `report`."""
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
