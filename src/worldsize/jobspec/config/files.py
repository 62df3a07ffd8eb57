"""Reader of `worldsize.toml` files, which merges them by priority."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import cache, partial

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import ConfigError
from worldsize.jobspec.config.compute_keys import (
    COMPUTE_KEYS,
    call_settings,
    is_harmless,
    keys_of_type,
    type_key,
    unknown_type,
)
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES, LOCAL
from worldsize.jobspec.config.config import SITE, SITE_FILES, ComputeSettings, Config, ConfigFiles
from worldsize.jobspec.config.toml import MAX_BYTES, parse_toml
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, plain_value
from worldsize.jobspec.reading.values import mapping_of, read_keys
from worldsize.trust.projects import (
    TrustVerdict,
    judge_project_file,
    judge_user_file,
    read_config,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.trust.projects import Ask

DEFAULTS, FORBIDDEN = "defaults", "forbidden"
SITE_TABLES = (DEFAULTS, FORBIDDEN)
"""Tables of the site's file alone, which jobspec/config/site.py reads."""
TOP_KEYS: Keys = {
    "home": Key("path", "Where runs are kept.", blank=False),
    "default_compute": Key("text", "The compute of jobs that do not set one.", blank=False, harmless=True),
    "compute": Key("any", "The computes, a table each."),
    "envs_dir": Key("path", "Where environments are built.", blank=False),
    "notify": Key("text", "The notification command of jobs that do not set one."),
    "preload": Key("preload", "For jobs that do not set it: auto, off, or modules that each node imports once."),
    DEFAULTS: Key("any", "In the site's file: values of job keys, for jobs that do not set them."),
    FORBIDDEN: Key("records", "In the site's file: values of job keys that jobs may not set."),
}
ENVIRONMENT_TABLES = ("environment", "environment_map", "conda")
"""Tables that jobspec/config/environment.py reads."""
AZURE_TABLE = "azure"
"""The table that contains tables, which wings/azure/mappings.py reads."""
_NAMES = {
    "compute": (
        r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}",
        "is not a compute's name",
        "use letters, digits, '-' and '_'",
    ),
    "environment": (
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        "is not an environment's name",
        "use letters, digits, '-', '_' and '.'",
    ),
}
Settings = dict[tuple[str, ...], YamlNode]


class _Layer(NamedTuple):
    """A file that counts: its `layer`, "site", "user" or "project", and its tables."""

    layer: str
    path: str
    root: YamlNode


def read_files(files: ConfigFiles, environ: Mapping[str, str], ask: Ask | None) -> Config:
    """Read the configuration `files` and return the merged configuration; for each key a project's file wins over the
    user's, and that over the site's. Of the projects' files only the first that counts is used. Raise one ConfigError
    for all errors in the files that count."""
    report = Problems(error=ConfigError)
    layers, rules, notices = _select_layers(files, environ, ask)
    settings: Settings = {}
    for each in layers:
        settings.update(_flatten(each.root, report, each.layer))
    report.check()
    values: dict[str, Any] = {}
    for path, node in settings.items():
        if len(path) == 1:
            report.base = os.path.dirname(node.origin)
            values.update(read_keys({path[0]: node}, "", TOP_KEYS, report, of="worldsize.toml"))
    names = dict.fromkeys([LOCAL, *(path[1] for path in settings if path[0] == "compute")])
    unusable: dict[str, ConfigError] = {}
    computes = {name: _read_compute(name, settings, report, unusable) for name in names}
    tables = {path: node for path, node in settings.items() if path[0] in ENVIRONMENT_TABLES}
    if tables:
        from worldsize.jobspec.config.environment import read_tables

        values.update(read_tables(tables, report))
    if azure := {path: node for path, node in settings.items() if path[0] == AZURE_TABLE}:
        from worldsize.registry import load_module

        values["azure"] = load_module("wings.azure.mappings", f"[{AZURE_TABLE}]").read_tables(azure, report)
    leaves = {".".join(path): node for path, node in settings.items() if path[0] != "compute" or len(path) > 2}
    site = [each.root for each in layers if each.layer == SITE]
    if rules or any(table in root.value for table in SITE_TABLES for root in site):
        from worldsize.jobspec.config.site import read_defaults, read_forbidden

        values["defaults"] = read_defaults(site, report)
        values["forbidden"] = read_forbidden([*site, *rules], names, report)
        leaves.update({f"{DEFAULTS}.{key}": node for key, node in values["defaults"].items()})
    report.check()
    default = settings.get(("default_compute",))
    if default:
        values["default_origin"] = default.where
    return Config(
        computes=computes,
        origins={key: node.origin for key, node in leaves.items()},
        places={key: node.where for key, node in leaves.items()},
        files={each.path: each.layer for each in layers},
        notices=tuple(notices),
        unusable=unusable,
        **values,
    )


def _select_layers(
    files: ConfigFiles, environ: Mapping[str, str], ask: Ask | None
) -> tuple[list[_Layer], list[YamlNode], list[str]]:
    """Return those files that count because they are trusted, of the projects' files only the first one, the weakest
    file first; the tables of `files.installed`, of which only the rules count; and notices for the user about the
    files."""
    layers: list[_Layer] = []
    rules: list[YamlNode] = []
    notices: list[str] = []

    def counts(verdict: TrustVerdict) -> bool:
        if verdict.notice:
            notices.append(verdict.notice)
        return verdict.counts

    for path, layer in ((files.installed, ""), (files.site, SITE), (files.own, "user")):
        file = read_config(path, MAX_BYTES) if path else None
        if file and counts(judge_user_file(file, environ)):
            root = parse_toml(file)
            if layer:
                layers.append(_Layer(layer, file.path, root))
            else:
                rules.append(root)
    for project in files.projects:
        file = read_config(project, MAX_BYTES)
        tables = cache(partial(parse_toml, file))
        if counts(judge_project_file(file, partial(_authority, tables), environ, ask)):
            layers.append(_Layer("project", file.path, tables()))
            break
    return layers, rules, notices


def _authority(root: Callable[[], YamlNode]) -> list[tuple[str, str]]:
    """Return the settings in a project's worldsize.toml that could do harm, each as (dotted key, value). `root` returns
    the file's tables."""
    settings = _flatten(root(), Problems(error=ConfigError))
    said = [(path, plain_value(node)) for path, node in settings.items()]
    return [(".".join(path), repr(value)) for path, value in said if _has_authority(path, str(value))]


def _has_authority(path: tuple[str, ...], value: str) -> bool:
    """Return whether a setting of worldsize.toml, with the key `path`, decides what is executed, what is read or
    written, or where a secret is sent. Unknown settings count as such, and so do values that are not printable, since a
    line break could lead into a script."""
    if not value.isprintable():
        return True
    if len(path) == 1:
        return path[0] not in TOP_KEYS or not TOP_KEYS[path[0]].harmless
    return not (path[0] == "compute" and (len(path) == 2 or is_harmless(path[2])))


def _flatten(root: YamlNode, report: Problems, layer: str = "project") -> Settings:
    """Return the settings in `root`, the tables of one worldsize.toml, by path: one entry per top-level key, one per
    name in a table such as [environment_map], and one per key of a compute's table and of each of Azure's tables. So
    the nearest file wins entry by entry. The tables that only the site's file may have are left out; in another `layer`
    they are problems in `report`."""
    settings: Settings = {}
    for table, node in root.value.items():
        if table in SITE_TABLES:
            if layer != SITE:
                report.add(node, table, "is only for the site's file", f"put it into {SITE_FILES[0]}, or leave it out")
            continue
        if table not in ("compute", AZURE_TABLE, *ENVIRONMENT_TABLES):
            settings[(table,)] = node
            continue
        for name, item in mapping_of(node, table, report).items():
            path = f"{table}.{name[:60]}"
            settings[(table, name)] = item
            if table in _NAMES and not re.fullmatch(_NAMES[table][0], name):
                report.add(item, path, *_NAMES[table][1:])
            elif table in ("compute", AZURE_TABLE):
                entries = mapping_of(item, path, report)
                settings.update({(table, name, key): entry for key, entry in entries.items()})
    return settings


def _read_compute(name: str, settings: Settings, report: Problems, unusable: dict[str, ConfigError]) -> ComputeSettings:
    """Return the ComputeSettings of the compute `name` from the merged `settings` of the configuration files. Problems
    are added to `report`. An error from the code of another package, or a type that no installed package provides, is
    written to `unusable`, and does not affect other computes."""
    entries = {path[2]: node for path, node in settings.items() if path[:2] == ("compute", name) and len(path) == 3}
    path = f"compute.{name}"
    values: dict[str, Any] = {"type": LOCAL} if name == LOCAL else {}
    for key, node in entries.items():
        report.base = os.path.dirname(node.origin)
        if key == "type" and (unknown := unknown_type(node, path)):
            values["type"], unusable[name] = node.value, unknown
        elif key in COMPUTE_KEYS:
            keys = {**COMPUTE_KEYS, key: type_key(node.value)} if key == "type" else COMPUTE_KEYS
            values.update(read_keys({key: node}, path, keys, report))
    if "type" not in values and "type" not in entries:
        hint = f"one of: {', '.join(COMPUTE_TYPES)}"
        report.add(settings[("compute", name)], path + ".type", "is missing", hint)
    if name == LOCAL and values["type"] != LOCAL:
        report.add(entries["type"], path + ".type", "is always local", "give the compute another name")
    try:
        values = _with_type_options(path, values, entries, report)
    except ConfigError as error:
        if values.get("type") in COMPUTE_TYPES:
            raise
        unusable[name] = ConfigError(error.what, error.where or f"{entries['type'].where}: {path}.type", error.hint)
    return ComputeSettings(name, **values)


def _with_type_options(
    path: str, values: dict[str, Any], entries: dict[str, YamlNode], report: Problems
) -> dict[str, Any]:
    """Return `values`, the fields of a ComputeSettings, with `options` added: the keys in the compute's table
    (`entries`) that only its type has. Fields that the type itself completes, and a relative `python`, are completed.
    """
    kind = values.get("type")
    others = {key: node for key, node in entries.items() if key not in COMPUTE_KEYS}
    known = keys_of_type(kind) if kind else None
    if known is None:
        values["options"] = {key: plain_value(node) for key, node in others.items()}
    else:
        _refuse_unknown(path, others, known, kind or "", report)
        wanted = {key: node for key, node in others.items() if key in known}
        values["options"] = read_keys(wanted, path, known, report)
    completed: dict[str, Any] | None = call_settings(kind, "complete_settings", None, values) if kind else None
    if completed is not None:
        return completed
    python = values.get("python")
    if python and (os.sep in python or python.startswith("~")):
        values["python"] = os.path.join(os.path.dirname(entries["python"].origin), os.path.expanduser(python))
    return values


def _refuse_unknown(path: str, entries: dict[str, YamlNode], known: Keys, kind: str, report: Problems) -> None:
    for key, node in entries.items():
        if key not in known:
            what = f"is not a key of a {kind} compute"
            hint = call_settings(kind, "key_hint", None, key)
            report.add(node, f"{path}.{key[:60]}", what, hint or did_you_mean(key, {**COMPUTE_KEYS, **known}))
