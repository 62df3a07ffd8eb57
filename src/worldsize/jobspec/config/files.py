"""Reader of `worldsize.toml` files, which merges them by priority."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial

from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError
from worldsize.jobspec.config.compute_keys import (
    COMPUTE_KEYS,
    call_settings,
    is_harmless,
    keys_of_type,
    type_key,
)
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES, LOCAL
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode, plain_value, to_node
from worldsize.jobspec.reading.values import mapping_of, read_keys
from worldsize.trust.projects import (
    ConfigFile,
    TrustVerdict,
    judge_project_file,
    judge_user_file,
    read_config,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.trust.projects import Ask

MAX_BYTES = 1 << 20
TOP_KEYS: Keys = {
    "home": Key("path", "Where runs are kept.", blank=False),
    "default_compute": Key("text", "The compute of jobs that do not set one.", blank=False, harmless=True),
    "compute": Key("any", "The computes, a table each."),
    "envs_dir": Key("path", "Where environments are built.", blank=False),
    "notify": Key("text", "The notification command of jobs that do not set one."),
    "preload": Key("preload", "For jobs that do not set it: auto, off, or modules that each node imports once."),
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
_POSITION = r"\(at line (\d+), column (\d+)\)$"
_HEADER = r"\s*\[([^\[\]]+)\]"
_KEY = r"\s*([A-Za-z0-9_.\"' -]+?)\s*="

Settings = dict[tuple[str, ...], YamlNode]


def read_files(
    site: str | None, own: str | None, projects: list[str], environ: Mapping[str, str], ask: Ask | None
) -> Config:
    """Read the worldsize.toml files of the `site`, the user (`own`) and the `projects`, and return the merged
    configuration; for each key a project's file wins over the user's, and that over the site's. Of the projects' files
    only the first that counts is used. Raise one ConfigError for all errors in the files that count."""
    report = Problems(error=ConfigError)
    roots, notices = _select_roots(site, own, projects, environ, ask)
    settings: Settings = {}
    for root in roots:
        settings.update(_flatten(root, report))
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
    report.check()
    origins = {".".join(path): node.origin for path, node in settings.items() if path[0] != "compute" or len(path) > 2}
    default = settings.get(("default_compute",))
    if default:
        values["default_origin"] = default.where
    return Config(computes=computes, origins=origins, notices=tuple(notices), unusable=unusable, **values)


def _select_roots(
    site: str | None, own: str | None, projects: list[str], environ: Mapping[str, str], ask: Ask | None
) -> tuple[list[YamlNode], list[str]]:
    """Return the tables of those worldsize.toml files that count because they are trusted, of the projects' files only
    the first one, the weakest file first; and notices for the user about the files. The site's file always counts: it
    belongs to root, or a variable names it."""
    roots = [_parse_toml(read_config(site, MAX_BYTES))] if site else []
    notices: list[str] = []

    def add(root: Callable[[], YamlNode], verdict: TrustVerdict) -> bool:
        if verdict.notice:
            notices.append(verdict.notice)
        if verdict.counts:
            roots.append(root())
        return verdict.counts

    if own:
        file = read_config(own, MAX_BYTES)
        add(partial(_parse_toml, file), judge_user_file(file, environ))
    for project in projects:
        file = read_config(project, MAX_BYTES)
        root = cache(partial(_parse_toml, file))
        if add(root, judge_project_file(file, partial(_authority, root), environ, ask)):
            break
    return roots, notices


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


def _parse_toml(config: ConfigFile) -> YamlNode:
    """Parse the worldsize.toml file `config` and return its tables as a tree of YamlNode, with line numbers where
    known. Raise ConfigError if it is not a TOML file, or is too large."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    file, data = config.path, config.data
    if len(data) > MAX_BYTES:
        raise ConfigError(f"larger than {MAX_BYTES} bytes, so not a configuration", file)
    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text)
        root = to_node(tables, file, error=ConfigError)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("not UTF-8 text", f"{file}:{line}") from None
    except RecursionError:
        raise ConfigError("nested too deep", file) from None
    except tomllib.TOMLDecodeError as error:
        raise _toml_error(str(error), file) from None
    except ValueError:
        raise ConfigError("not TOML: a number with too many digits", file) from None
    return _with_lines(root, (), _key_lines(text))


def _toml_error(message: str, file: str) -> ConfigError:
    place = re.search(_POSITION, message)
    if not place:
        return ConfigError(f"not TOML: {message}", file)
    what = f"not TOML, column {place[2]}: {message[: place.start()].rstrip()}"
    return ConfigError(what, f"{file}:{place[1]}")


def _key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line number of each table and key in `text`, a TOML file, by its path, such as ("compute", "lab",
    "type"). Keys that are not written in the usual notation have no line."""
    lines: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header, key = re.match(_HEADER, line), re.match(_KEY, line)
        if header:
            table = _key_path(header[1])
            lines.setdefault(table, number)
        elif key:
            lines.setdefault(table + _key_path(key[1]), number)
    return lines


def _key_path(dotted: str) -> tuple[str, ...]:
    return tuple(step.strip().strip("\"'") for step in dotted.split("."))


def _with_lines(node: YamlNode, path: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> YamlNode:
    node = node._replace(line=lines.get(path, node.line))
    if not isinstance(node.value, dict):
        return node
    children = {name: _with_lines(child, (*path, name), lines) for name, child in node.value.items()}
    return node._replace(value=children)


def _flatten(root: YamlNode, report: Problems) -> Settings:
    """Return the settings in `root`, the tables of one worldsize.toml, by path: one entry per top-level key, one per
    name in a table such as [environment_map], and one per key of a compute's table and of each of Azure's tables. So
    the nearest file wins entry by entry."""
    settings: Settings = {}
    for table, node in root.value.items():
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
    are added to `report`. An error from the code of another package is written to `unusable`, and does not affect other
    computes."""
    entries = {path[2]: node for path, node in settings.items() if path[:2] == ("compute", name) and len(path) == 3}
    path = f"compute.{name}"
    values: dict[str, Any] = {"type": LOCAL} if name == LOCAL else {}
    for key, node in entries.items():
        report.base = os.path.dirname(node.origin)
        if key in COMPUTE_KEYS:
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
