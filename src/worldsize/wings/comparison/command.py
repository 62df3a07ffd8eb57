"""The command `diff`, which prints the differences between two runs."""

from __future__ import annotations

import argparse

from worldsize.cli.console import add_output_option, add_run_argument, find_run, load_current_config
from worldsize.cli.output import show, show_json
from worldsize.common.named_tuple import Any

_EXAMPLES = """examples:
  worldsize diff 417k 9f2c                    job, code and environment, from the first to the second
  worldsize diff 417k                         against the latest run"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, "old", "a run")
    add_run_argument(parser, "new")
    add_output_option(parser)
    parser.set_defaults(act=diff)


def diff(options: argparse.Namespace) -> int:
    from worldsize.errors import UsageError
    from worldsize.wings.comparison.compare import compare

    if options.old is None:
        raise UsageError("diff needs two runs, or one to compare with the latest", None, _latest_two_hint())
    found = compare(find_run(options.old).paths, find_run(options.new).paths)
    if options.output == "json":
        show_json(found)
    else:
        show(*_lines(found))
    return 0


def _latest_two_hint() -> str:
    from worldsize.store.find import list_ids

    ids = list_ids(load_current_config().home, 2)
    if len(ids) < 2:
        return "worldsize diff OLD NEW"
    return f"the latest two: worldsize diff {ids[1]} {ids[0]}"


def _lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for part in ("job", "environment", "nodes"):
        for key, (old, new) in found[part].items():
            lines.append(f"{part} {key}: {_value_text(old)} → {_value_text(new)}")
    for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed")):
        lines += [f"code {sign} {path}" for path in found["code"][kind]]
    return lines or ["no difference in job, code or environment"]


def _value_text(value: Any) -> str:
    return "(unset)" if value is None else str(value)
