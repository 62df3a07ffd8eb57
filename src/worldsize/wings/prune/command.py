"""prune: finished runs, removed."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import (
    add_output_option,
    complete_runs,
    find_runs,
    load_current_config,
    parse_age,
    parse_count,
    set_completer,
)
from worldsize.cli.output import report, show, show_json
from worldsize.cli.runs.list import complete_states, parse_state
from worldsize.errors import DamagedRun, UsageError
from worldsize.service.computes import compute_of_run
from worldsize.service.runs.run import Run
from worldsize.state.records import Reason
from worldsize.store.find import run_paths

_EXAMPLES = """examples:
  worldsize prune --older-than 30d --dry-run
  worldsize prune --keep 100 --state FAILED
  worldsize prune 417k 9f2c                   these, also where one is damaged"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    runs = parser.add_argument("runs", nargs="*", metavar="RUN", help="these runs, which have ended or are damaged")
    set_completer(runs, complete_runs)
    parser.add_argument("--older-than", metavar="AGE", help="ended longer ago than this: 30d, 12h, 90m, 45s")
    parser.add_argument("--keep", metavar="N", type=parse_count, help="the newest N runs stay")
    state = parser.add_argument(
        "--state", metavar="STATE", action="append", help="only runs that ended so (may be repeated)"
    )
    set_completer(state, complete_states)
    parser.add_argument("--dry-run", action="store_true", help="say what would go; remove nothing")
    add_output_option(parser)
    parser.set_defaults(act=run_prune)


def run_prune(options: argparse.Namespace) -> int:
    from worldsize.wings.prune.removal import prune

    chosen = options.older_than is not None or options.keep is not None or bool(options.state)
    if options.runs:
        if chosen:
            raise UsageError("both runs and what to choose them by", "prune", "leave one of them out")
        return _show([_remove(run, options.dry_run) for run in options.runs], options)
    if not chosen:
        raise UsageError("nothing says which runs may go", "prune", "--older-than 30d, --keep 100 or --state FAILED")
    gone = prune(
        load_current_config().home,
        now=time.time(),
        older_than=None if options.older_than is None else parse_age(options.older_than),
        keep=options.keep or 0,
        states=[parse_state(text) or "" for text in options.state] if options.state else None,
        dry_run=options.dry_run,
    )
    return _show(gone, options)


def _remove(text: str, dry_run: bool) -> tuple[str, int]:
    """UsageError for a run that has not ended, and one that is not this user's own."""
    from worldsize.service.ownership import danger_of_run
    from worldsize.trust.directories import refuse_foreign
    from worldsize.wings.prune.removal import remove

    run = find_runs(text)
    refuse_foreign(run.paths.root, danger_of_run(run.paths), "prune")
    home = load_current_config().home
    if os.path.realpath(run_paths(home, run.id).root) != os.path.realpath(run.directory):
        raise UsageError(f"{text} is no run of {home}", None, "the elements of an array go with the array")
    try:
        state = run.look()
    except DamagedRun:
        state = None
    if state is not None and not state.final:
        raise UsageError(f"{run.id} is {state.state}", None, f"worldsize cancel {run.id}")
    if isinstance(run, Run) and (state is None or (state.reason or "").startswith(Reason.DAMAGED)) and _may_go_on(run):
        what = f"{run.id} goes on, though its directory is damaged, or a newer worldsize's"
        raise UsageError(what, None, f"worldsize cancel {run.id}, or the release that started it")
    if not dry_run and isinstance(run, Run):
        run.end_remains()
    return run.id, remove(home, run.paths, dry_run)


def _may_go_on(run: Run) -> bool:
    """Whether the compute still has a run whose own files do not tell. False where no file names it there."""
    try:
        handle = run.native()
    except DamagedRun:
        return False
    if handle is None:
        return False
    compute = compute_of_run(run.paths.root, handle, "", run.environ)
    return compute.observe([handle])[0].phase not in ("ended", "absent")


def _show(gone: list[tuple[str, int]], options: argparse.Namespace) -> int:
    freed = sum(size for _, size in gone)
    if options.output == "json":
        show_json([{"id": run_id, "bytes": size} for run_id, size in gone])
    else:
        show(*("{}  {} bytes".format(*row) for row in gone))
        report(
            "{} {} run(s), {:.1f} MB".format("would remove" if options.dry_run else "removed", len(gone), freed / 1e6)
        )
    return 0
