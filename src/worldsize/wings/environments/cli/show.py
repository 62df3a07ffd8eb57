"""env show: what is in an environment, and whether it still is."""

from __future__ import annotations

import argparse
import os
from typing import Any

from worldsize.cli.console import add_output_option, load_current_config, set_completer, table
from worldsize.cli.output import report, show, show_json
from worldsize.wings.environments.cli.build import add_compute_option, requested_environment
from worldsize.wings.environments.cli.shelf import complete_environments

_EXAMPLES = """examples:
  worldsize env show torch                        an environment that was built
  worldsize env show environment.yml              what a file would build: where, and whether it is there
  worldsize env show torch --verify               reads every file that conda installed: was one changed?"""


def configure(action: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    name = parser.add_argument("name", metavar="NAME", help="a name, its unique beginning, a path, or a spec")
    set_completer(name, complete_environments)
    parser.add_argument("--verify", action="store_true", help="compare conda's files with its checksums; 1 for changes")
    add_compute_option(parser)
    add_output_option(parser)
    parser.set_defaults(act=show_environment)


def show_environment(options: argparse.Namespace) -> int:
    prefix, description = _find_prefix(options)
    found = _changed_files(prefix) if options.verify else []
    if options.output == "json":
        value: dict[str, Any] = {"prefix": prefix, "ready": description is not None, **(description or {})}
        show_json({**value, "changed": found} if options.verify else value)
    else:
        _show(prefix, description)
        for each in found:
            report(f"{each['file']} of {each['package']} was {each['what']}")
    return 1 if found or (options.verify and description is None) else 0


def _find_prefix(options: argparse.Namespace) -> tuple[str | None, dict[str, Any] | None]:
    from worldsize.errors import NotFound
    from worldsize.service.environments.lookup import find_environment
    from worldsize.wings.environments.shelf import find_entry
    from worldsize.wings.environments.workspace.prefixes import read_description

    config = load_current_config()
    try:
        path = find_entry(config, options.name, options.compute).path
        return path, read_description(path)
    except NotFound:
        compute = config.compute(options.compute, "--compute").name
        environment = find_environment(requested_environment(options.name, config), config, compute, os.environ)
        if environment is None or environment.existing is None:
            raise
    found = environment.existing
    if environment.recipe is None:
        version = "{}.{}".format(*found.version) if found.version else None
        return found.prefix, {"kind": found.kind, "python": version}
    return found.prefix, read_description(found.prefix)


def _changed_files(prefix: str | None) -> list[dict[str, Any]]:
    from worldsize.wings.environments.conda.clobbered_files import find_clobbered
    from worldsize.wings.environments.inspect.installed import installed_distributions

    if prefix is None:
        return []
    return [each._asdict() for each in find_clobbered(prefix, None, installed_distributions(prefix))]


def _show(prefix: str | None, description: dict[str, Any] | None) -> None:
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
