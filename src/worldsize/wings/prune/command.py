"""The commands `prune`, which removes finished runs by a rule, and `rm`, which removes the named runs."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import (
    add_output_option,
    complete_runs,
    count_text,
    find_runs,
    load_current_config,
    parse_age,
    parse_count,
    set_completer,
)
from worldsize.cli.output import report, show, show_json
from worldsize.cli.runs.run_filter import complete_states, parse_state
from worldsize.common.numbers import bytes_text
from worldsize.errors import DamagedRun, UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.computes import compute_of_run
from worldsize.service.runs.run import Run
from worldsize.state.records import Reason
from worldsize.store.find import run_paths
from worldsize.store.output_files import output_files

_EXAMPLES = {
    "prune": """examples:
  worldsize prune --older-than 30d --dry-run
  worldsize prune --keep 100 --state FAILED
  worldsize prune --older-than 90d --with-outputs       also runs that have written files

A run that has written files is kept without --with-outputs.""",
    "rm": """examples:
  worldsize rm 417k 9f2c                                also damaged runs
  worldsize fetch 417k && worldsize rm 417k --with-outputs""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    if verb == "rm":
        runs = parser.add_argument("runs", nargs="+", metavar="RUN", help="a run that has ended, or is damaged")
        set_completer(runs, complete_runs)
        parser.set_defaults(act=run_rm)
    else:
        parser.add_argument("--older-than", metavar="AGE", help="ended longer ago than: 30d, 12h, 90m, 45s")
        parser.add_argument("--keep", metavar="N", type=parse_count, help="keep the newest N runs")
        state = parser.add_argument(
            "--state", metavar="STATE", action="append", help="only runs in this state (may be repeated)"
        )
        set_completer(state, complete_states)
        parser.set_defaults(act=run_prune)
    parser.add_argument(
        "--with-outputs", action="store_true", help="also runs that have written files, with these files"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed; remove nothing")
    add_output_option(parser)


def run_rm(options: argparse.Namespace) -> int:
    return _show([_remove(run, options) for run in options.runs], options)


def run_prune(options: argparse.Namespace) -> int:
    from worldsize.wings.prune.removal import prune

    if options.older_than is None and options.keep is None and not options.state:
        raise UsageError("no option selects runs", "prune", "--older-than 30d, --keep 100 or --state FAILED")
    kept = _KeptRuns()
    gone = prune(
        load_current_config().home,
        now=time.time(),
        older_than=None if options.older_than is None else parse_age(options.older_than),
        keep=options.keep or 0,
        states=[parse_state(text) or "" for text in options.state] if options.state else None,
        dry_run=options.dry_run,
        is_kept=(lambda _: False) if options.with_outputs else kept.is_kept,
    )
    code = _show(gone, options)
    if kept.runs:
        text = f"kept {count_text(kept.runs, 'run')}, whose files are {bytes_text(kept.bytes)}"
        report(f"{text}: --with-outputs removes them too")
    return code


class _KeptRuns:
    """A counter of the runs that are kept because they have written files."""

    def __init__(self) -> None:
        self.runs = self.bytes = 0

    def is_kept(self, paths: RunPaths) -> bool:
        files, size = _written(paths)
        self.runs += files > 0
        self.bytes += size
        return files > 0


def _written(paths: RunPaths) -> tuple[int, int]:
    """Return the number of output files that a run, or the elements of an array of runs, have written, and their total
    size in bytes."""
    files = size = 0
    for root in [paths.root, *_element_roots(paths)]:
        for file in output_files(RunPaths(root)):
            files, size = files + 1, size + file.bytes
    return files, size


def _element_roots(paths: RunPaths) -> list[str]:
    try:
        names = os.listdir(paths.root)
    except OSError:
        return []
    return [os.path.join(paths.root, name) for name in names if name.startswith(paths.run_id + "_")]


def _remove(text: str, options: argparse.Namespace) -> tuple[str, int]:
    """Remove the run that `text` names; with `--dry-run` remove nothing. Return its id and the bytes that this frees.
    Raise UsageError if the run has not ended, is not this user's own, is an element of an array, or has written files
    and `--with-outputs` is missing."""
    from worldsize.service.ownership import danger_of_run
    from worldsize.trust.directories import refuse_foreign
    from worldsize.wings.prune.removal import remove

    run = find_runs(text)
    refuse_foreign(run.paths.root, danger_of_run(run.paths), "remove")
    home = load_current_config().home
    if os.path.realpath(run_paths(home, run.id).root) != os.path.realpath(run.directory):
        raise UsageError(f"{text} is not a run of {home}", None, "the elements of an array are removed with the array")
    try:
        state = run.look()
    except DamagedRun:
        state = None
    if state is not None and not state.final:
        raise UsageError(f"{run.id} is {state.state}", None, f"worldsize cancel {run.id}")
    if isinstance(run, Run) and (state is None or (state.reason or "").startswith(Reason.DAMAGED)) and _may_go_on(run):
        what = f"{run.id} is still running, though its directory is damaged, or of a newer worldsize"
        raise UsageError(what, None, f"worldsize cancel {run.id}, or the release that started it")
    files, size = (0, 0) if options.with_outputs else _written(run.paths)
    if files:
        what = f"{run.id} has written {count_text(files, 'file')}, {bytes_text(size)}, which would be removed too"
        raise UsageError(what, None, f"worldsize fetch {run.id}; then: worldsize rm {run.id} --with-outputs")
    if not options.dry_run and isinstance(run, Run):
        run.end_remains()
    return run.id, remove(home, run.paths, options.dry_run)


def _may_go_on(run: Run) -> bool:
    """Query the compute of a run whose own files do not show its state, and return whether the run still exists there.
    False if no file contains the run's identifier on the compute."""
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
