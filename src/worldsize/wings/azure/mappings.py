"""The meaning of Azure's names here, as `[azure.computes]` and `[azure.data]` of the configuration define it.

```
[azure.computes]
gpu-cluster = "slurm-a100"                         # compute: azureml:gpu-cluster; "*" matches all other names

[azure.data]
"cifar" = "/data/cifar"                            # azureml:cifar:1, azureml:cifar@latest, of a registry too
"cifar:3" = "https://host/cifar-3.tar.gz"          # this version alone
"datastores/workspaceblobstore" = "/mnt/blob"      # azureml://datastores/workspaceblobstore/paths/a is /mnt/blob/a
```

Pure, except that paths of the configuration are relative to its directory. Queries of the service itself would belong
in `with_mapped_data`. It leaves references that are in no table unchanged, and preflight refuses them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.jobspec.keys.key import Key, Keys
from worldsize.jobspec.paths import is_remote
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import YamlNode
from worldsize.jobspec.reading.values import read_path, read_text

TABLES: Keys = {
    "computes": Key("text", "Computes: the service's name, and the name of one of this configuration.", blank=False),
    "data": Key("path", "Data: a reference or the beginning of one, and a local path or a URI.", blank=False),
}
PREFIX = "azureml:"
ANY = "*"
_SHOWN = 500
"""The most characters of a reference that are shown in a message."""


def read_tables(settings: Mapping[tuple[str, ...], YamlNode], report: Problems) -> dict[str, dict[str, str]]:
    """Return the tables [azure.computes] and [azure.data] of a configuration, as a mapping of table to name to value.
    `settings` are the configuration's YAML nodes by paths such as ("azure", "data", "cifar"). Errors are added to
    `report`."""
    tables: dict[str, dict[str, str]] = {}
    for path, node in settings.items():
        if len(path) == 2 and path[1] not in TABLES:
            report.add(node, ".".join(path), "is not a key of azure", did_you_mean(path[1], TABLES))
        if len(path) != 3 or path[1] not in TABLES:
            continue
        report.base = os.path.dirname(node.origin)
        table, name = path[1], path[2]
        shown = f"azure.{table}.{name[:80]}"
        key = TABLES[table]
        value = (read_path if key.kind == "path" else read_text)(node, shown, key, report)
        if value is None:
            continue
        if is_reference(value):
            report.add(node, shown, f"is another name of Azure: {value:.80}", "map it here")
        tables.setdefault(table, {})[name] = value
    return tables


class ComputeName(NamedTuple):
    """The compute that a job's `compute:` means here. `where` is the key that defines it, as messages name it.
    `by_default` is true if no key does."""

    name: str
    where: str
    by_default: bool = False


def compute_name(said: str, config: Config) -> ComputeName:
    """Return the configured compute that a job's `compute:` with the text `said` means. It is the one in the table
    [azure.computes], else a compute of this name. A name with `azureml:` otherwise means the table's "*", and last the
    default compute."""
    table = {_plain_name(each): value for each, value in config.azure.get("computes", {}).items()}
    name = _plain_name(said)
    if name in table and name != ANY:
        return ComputeName(table[name], f"azure.computes.{name}")
    if not said.startswith(PREFIX) or name in config.computes or name in config.unusable:
        return ComputeName(name, "compute")
    if ANY in table:
        return ComputeName(table[ANY], f"azure.computes.{ANY}")
    return ComputeName(config.default_compute, config.default_origin, by_default=True)


def _plain_name(said: str) -> str:
    """Return the name of a compute without `azureml:`; for an address in Azure's resource manager, the last word."""
    name = said.removeprefix(PREFIX)
    return name.rstrip("/").rpartition("/")[2] if name.startswith("/subscriptions/") else name


def with_mapped_data(job: Job, data: Mapping[str, str]) -> Job:
    """Return `job` with its references to Azure's data replaced by the locations that `data`, the table [azure.data],
    contains for them. References that `data` does not contain stay. The path of an output is replaced only by a local
    directory."""

    def mapped(value: Any, remote: bool) -> Any:
        path = getattr(value, "path", None)
        found = data_location(path, data) if path else None
        return value if found is None or (is_remote(found) and not remote) else value._replace(path=found)

    return job._replace(
        inputs={name: mapped(value, True) for name, value in job.inputs.items()},
        outputs={name: mapped(value, False) for name, value in job.outputs.items()},
    )


def data_location(reference: str, data: Mapping[str, str]) -> str | None:
    """Return the location to which the table `data` maps a data reference such as azureml:cifar:1: a local path or a
    URI. None if `data` does not contain it, if `reference` is not a reference, and if it leads out of the mapped
    directory."""
    if not is_reference(reference) or _leads_out(reference):
        return None
    table = {_plain_key(each): value for each, value in data.items()}
    words = _datastore_words(reference)
    if not words:
        return next((table[name] for name in _spellings(reference) if name in table), None)
    most = max((key.count("/") + 1 for key in table), default=0)
    for count in range(min(len(words), most), 1, -1):  # the longest beginning wins
        value = table.get("/".join(words[:count]))
        if value is not None:
            return _joined(value, words[count:])
    return None


def is_reference(path: str) -> bool:
    """Return whether `path` is a reference to something that Azure's service stores, which begins with azureml:."""
    return path[: len(PREFIX)].lower() == PREFIX


def reference_problem(reference: str) -> tuple[str, str]:
    """Return the error text and a hint for a data reference to Azure that no mapping of [azure.data] contains."""
    shown = reference if len(reference) <= _SHOWN else reference[:_SHOWN] + "…"
    if _leads_out(reference):
        return f"{shown} leads out of its datastore by ..", "name the path itself"
    words = _datastore_words(reference)
    name, value = ("/".join(words[:2]), "/a/directory") if words else (next(_spellings(reference)) or "NAME", "/a/path")
    line = f'"{name}" = "{value}"'
    hint = f"map it: {line} in [azure.data] of worldsize.toml; or name a local path"
    return f"{shown} cannot be read here", hint


def _leads_out(reference: str) -> bool:
    """Return whether a part of the path in a data `reference` is `..`, in any encoding."""
    return any(
        ".." in re.split(r"[/\\]", text) for text in (reference, unquote(reference), unquote(unquote(reference)))
    )


def _datastore_words(reference: str) -> list[str]:
    """Return the words `datastores`, the datastore's name and the words of the path, for a reference to data in a
    datastore of any workspace; [] for others."""
    found = re.match(r"(?is)azureml://(?:.*/)?datastores/([^/]+)(?:/paths(?:/(.*))?)?/?$", reference)
    return ["datastores", found[1], *(word for word in (found[2] or "").split("/") if word)] if found else []


def _spellings(reference: str) -> Iterator[str]:
    """Yield the names under which the table [azure.data] may contain the data asset, the model or the output of a job
    that a `reference` names, with its version first. For an asset's address, in a registry or a workspace, NAME:VERSION
    or NAME@LABEL counts."""
    rest = reference[len(PREFIX) :]
    if rest.startswith("/"):
        found = re.search(r"/(?:data|models)/([^/]+)(?:/(versions|labels)/([^/]+))?/?$", rest)
        if found is None:
            yield rest.strip("/")
            return
        sign = "@" if found[2] == "labels" else ":"
        version = sign + found[3] if found[2] else ""
        registry = re.match("//registries/([^/]+)/", rest)
        if registry:
            yield f"registries/{registry[1]}/{found[1]}{version}"
            yield f"registries/{registry[1]}/{found[1]}"
        rest = found[1] + version
    yield rest
    yield re.split("[:@]", rest)[0]


def _plain_key(name: str) -> str:
    """Return a key of the table [azure.data] in the form that is compared with references: without azureml:, and
    without `paths` after a datastore."""
    words = name.removeprefix(PREFIX).strip("/").split("/")
    return "/".join(words[:2] + words[3:] if words[0] == "datastores" and words[2:3] == ["paths"] else words)


def _joined(value: str, words: list[str]) -> str:
    """Return the path `words` below the location `value` to which a datastore is mapped. The query of a URI, from `?`
    on, stays at its end."""
    if not words:
        return value
    base, sign, query = value.partition("?") if is_remote(value) else (value, "", "")
    return "/".join((base.rstrip("/"), *words)) + sign + query
