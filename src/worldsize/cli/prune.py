"""prune: finished runs, removed."""

from __future__ import annotations

import argparse
import re
import time

from worldsize.cli.listing import complete_states, known_state
from worldsize.cli.output import say, show, show_json
from worldsize.cli.shared import add_output, completed_by, config_here, count
from worldsize.errors import UsageError

_EXAMPLES = """examples:
  worldsize prune --older-than 30d --dry-run
  worldsize prune --keep 100 --state FAILED"""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("--older-than", metavar="AGE", help="ended longer ago than this: 30d, 12h, 90m, 45s")
    parser.add_argument("--keep", metavar="N", type=count, help="the newest N runs stay")
    state = parser.add_argument(
        "--state", metavar="STATE", action="append", help="only runs that ended so (may be repeated)"
    )
    completed_by(state, complete_states)
    parser.add_argument("--dry-run", action="store_true", help="say what would go; remove nothing")
    add_output(parser)
    parser.set_defaults(act=prune)


def age(text: str, where: str = "--older-than") -> float:
    """Seconds. UsageError for what is no age."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text)
    if match is None:
        raise UsageError("%r is not an age" % text[:40], where, "a number and a unit: 30d, 12h, 90m, 45s")
    return float(match[1]) * _UNITS[match[2]]


def prune(options: argparse.Namespace) -> int:
    from worldsize.store.prune import prune as remove

    if options.older_than is None and options.keep is None and not options.state:
        raise UsageError("nothing says which runs may go", "prune", "--older-than 30d, --keep 100 or --state FAILED")
    gone = remove(
        config_here().home,
        now=time.time(),
        older_than=None if options.older_than is None else age(options.older_than),
        keep=options.keep or 0,
        states=[known_state(text) or "" for text in options.state] if options.state else None,
        dry_run=options.dry_run,
    )
    freed = sum(size for _, size in gone)
    if options.output == "json":
        show_json([{"id": run_id, "bytes": size} for run_id, size in gone])
    else:
        show(*("%s  %d bytes" % row for row in gone))
        say("%s %d run(s), %.1f MB" % ("would remove" if options.dry_run else "removed", len(gone), freed / 1e6))
    return 0
