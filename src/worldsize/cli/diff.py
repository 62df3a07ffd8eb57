"""diff: what differs between two runs."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from worldsize.cli.shared import add_output, add_run, find_run, print_json

_EXAMPLES = """examples:
  worldsize diff 417k 9f2c                    job, code and environment, from the first to the second
  worldsize diff 417k                         against the latest run"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run(parser, "old")
    add_run(parser, "new")
    add_output(parser)
    parser.set_defaults(act=diff)


def diff(options: argparse.Namespace) -> int:
    from worldsize.errors import UsageError
    from worldsize.service.compare import compare

    if options.old is None:
        raise UsageError("diff wants two runs", None, "worldsize diff OLD NEW")
    found = compare(find_run(options.old).paths, find_run(options.new).paths)
    if options.output == "json":
        print_json(found)
    else:
        sys.stdout.write("\n".join(_lines(found)) + "\n")
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    lines = []
    for part in ("job", "environment"):
        for key, (old, new) in found[part].items():
            lines.append("%s %s: %s → %s" % (part, key, _shown(old), _shown(new)))
    code = found["code"]
    if code is None:
        lines.append("code: one of the runs has no snapshot")
    else:
        for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed")):
            lines += ["code %s %s" % (sign, path) for path in code[kind]]
    return lines or ["no difference in job, code or environment"]


def _shown(value: Any) -> str:
    return "(unset)" if value is None else str(value)
