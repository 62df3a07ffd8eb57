"""The actions `env list`, `env show`, `env remove` and `env gc` for environments that were built."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import duration_text, load_current_config
from worldsize.cli.output import report, show, show_json
from worldsize.cli.table import table
from worldsize.common.named_tuple import Any
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.trust.secrets import mask_text
from worldsize.wings.environments.cli.build import look_up


def list_environments(options: argparse.Namespace) -> int:
    from worldsize.wings.environments.shelf import environment_entries, runs_by_prefix
    from worldsize.wings.environments.workspace.prefixes import last_use_time

    config = load_current_config()
    shelf = environment_entries(config, options.compute)
    used = runs_by_prefix(config) if shelf else {}
    rows = [environment_row(entry, last_use_time(entry.path), used.get(entry.path, [])) for entry in shelf]
    if options.output == "json":
        show_json(rows)
    elif rows:
        headers = ["NAME", "STATE", "KIND", "PYTHON", "PACKAGES", "USED", "BY"]
        show(*table([_cells(each) for each in rows], headers))
    else:
        report("no environment has been built yet: worldsize env build environment.yml")
    return 0


def environment_row(entry: Any, used: float, runs: list[str]) -> dict[str, Any]:
    description = entry.description or {}
    keys = ("kind", "python", "fingerprint", "digest", "created")
    return {
        "name": entry.name,
        "label": entry.label,
        "prefix": entry.path,
        "state": entry.state,
        **{key: description.get(key) for key in keys},
        "packages": len(description.get("conda", ())) + len(description.get("pip", ())),
        "used": used,
        "runs": runs,
        "builder": dict(entry.note) or None,
    }


def _cells(row: dict[str, Any]) -> list[str]:
    count = str(row["packages"]) if row["state"] == "ready" else ""
    ago = duration_text(max(0.0, time.time() - row["used"])) + " ago"
    by = " ".join(row["runs"]) or str((row["builder"] or {}).get("step", ""))
    return [row["name"], row["state"], row["kind"] or "", row["python"] or "", count, ago, by]


def show_environment(options: argparse.Namespace) -> int:
    prefix, description, spec = _find_prefix(options)
    found = _changed_files(prefix) if options.verify else []
    planned = planned_description(spec) if description is None and spec is not None else {}
    if options.output == "json":
        value: dict[str, Any] = {"prefix": prefix, "ready": description is not None, **(description or {})}
        value.update({"planned": planned} if planned else {})
        show_json({**value, "changed": found} if options.verify else value)
    else:
        _show_description(prefix, description)
        show(*(f"{key:<12} {line}" for key, lines in planned.items() for line in lines))
        for each in found:
            report(f"{each['file']} of {each['package']} was {each['what']}")
    return 1 if found or (options.verify and description is None) else 0


def planned_description(spec: EnvironmentSpec) -> dict[str, list[str]]:
    """Return the contents of an environment that is not built yet: lists of lines, by the keys of a job. Keys without a
    value in `spec` are omitted, and secrets are masked."""
    parts: dict[str, Any] = {
        "name": spec.name,
        "python": spec.python,
        "image": spec.image,
        "file": spec.file,
        "modules": spec.modules,
        "channels": spec.channels,
        "conda": spec.conda,
        "pip": spec.pip,
        "steps": [*(f"fetch {step.url}" for step in spec.fetch), *(step.title for step in spec.steps)],
        "prerequisites": spec.prerequisites,
    }
    lists = {key: [value] if isinstance(value, str) else list(value or ()) for key, value in parts.items()}
    return {key: [mask_text(each) for each in lines] for key, lines in lists.items() if lines}


def _find_prefix(options: argparse.Namespace) -> tuple[str | None, dict[str, Any] | None, EnvironmentSpec | None]:
    """Return the prefix of the environment that the command line names, its description, and its spec. The prefix may
    not exist yet. The description is None before the environment is built. The spec is None for an environment that is
    found by its name, or that worldsize does not build. Raise NotFound if there is no such environment."""
    from worldsize.errors import NotFound
    from worldsize.wings.environments.shelf import find_entry
    from worldsize.wings.environments.workspace.prefixes import read_description

    config = load_current_config()
    try:
        path = find_entry(config, options.name, options.compute).path
        return path, read_description(path), None
    except NotFound:
        compute = config.compute(options.compute, "--compute").name
        environment = look_up(options.name, config, compute)
        if environment is None or environment.existing is None:
            raise
    found = environment.existing
    if environment.recipe is None:
        version = "{}.{}".format(*found.version) if found.version else None
        return found.prefix, {"kind": found.kind, "python": version}, None
    return found.prefix, read_description(found.prefix), environment.spec


def _changed_files(prefix: str | None) -> list[dict[str, Any]]:
    from worldsize.wings.environments.inspect.installed import find_clobbered, installed_distributions

    if prefix is None:
        return []
    return [each._asdict() for each in find_clobbered(prefix, None, installed_distributions(prefix))]


def _show_description(prefix: str | None, description: dict[str, Any] | None) -> None:
    if description is None:
        show(f"{prefix}: not built")
        return
    keys = ("name", "kind", "python", "platform", "fingerprint", "digest", "upon", "host")
    lines = [["prefix", prefix or ""], *([key, str(description[key])] for key in keys if description.get(key))]
    if description.get("took"):
        lines.append(["took", f"{description['took']:.1f} s"])
    show(*(f"{key:<12} {value}" for key, value in lines))
    rows = [[each["name"], each["version"], each["build"], "conda"] for each in description.get("conda", ())]
    rows += [[each["name"], each["version"], "", "pip"] for each in description.get("pip", ())]
    if rows:
        show("", *table(rows, ["PACKAGE", "VERSION", "BUILD", "FROM"]))


def remove(options: argparse.Namespace) -> int:
    from worldsize.wings.environments.shelf import find_entry
    from worldsize.wings.environments.shelf import remove as remove_entries

    config = load_current_config()
    found = [find_entry(config, name) for name in options.names]
    remove_entries(config, found, options.force)
    if options.output == "json":
        show_json([entry.path for entry in found])
    else:
        show(*(os.path.basename(entry.path) for entry in found))
    return 0


def collect_garbage(options: argparse.Namespace) -> int:
    from worldsize.cli.console import parse_age
    from worldsize.wings.environments.shelf import remove_unused

    gone = remove_unused(load_current_config(), time.time() - parse_age(options.unused, "--unused"), options.dry_run)
    freed = sum(each.bytes for each in gone)
    if options.output == "json":
        show_json([{"name": each.entry.name, "bytes": each.bytes, "why": each.why} for each in gone])
    else:
        show(*(f"{each.entry.name}  {each.why}  {each.bytes / 1e6:.1f} MB" for each in gone))
        did = "would remove" if options.dry_run else "removed"
        report(f"{did} {len(gone)} environment(s), {freed / 1e6:.1f} MB")
    return 0
