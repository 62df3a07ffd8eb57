"""The tests' command line: `python -m scripts.testing fast|standard|all|rest|changed [options] [options of pytest]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from scripts.environments.roots import RELEASES
from scripts.testing.changed import affected_tests, changed_files
from scripts.testing.lanes import NOTHING_COLLECTED, Selection, last_failed, run_selection
from scripts.testing.second_slurm import run_there

PARTS = (
    "unit",
    "local",
    "slurm",
    "hpcpack",
    "azure",
    "environments",
    "frameworks",
    "data_parallel",
    "security",
    "docs",
)
LAST_FAILED = ("--last-failed", "--lf")


def main(arguments: Sequence[str]) -> int:
    options, further = _parser().parse_known_args(arguments)
    further = [word for word in further if word != "--"]
    if options.slurm:
        if options.tests == "changed" or options.part not in ([], ["slurm"]):
            print("--slurm: standard, rest or all of part slurm", file=sys.stderr)
            return 2
        return run_there(options.slurm, options.tests, further)
    if options.tests == "changed":
        return _run_changed(options, further)
    selection = Selection(options.tests, tuple(options.part))
    if set(LAST_FAILED) & set(further):
        # pytest's own option would run all tests of a phase in which none had failed.
        failed = last_failed()
        if not failed:
            print("no test failed when they ran last")
            return 0
        further = [word for word in further if word not in LAST_FAILED]
        selection = selection._replace(tier="all", order=tuple(failed))
    return run_selection(selection, further, options.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m scripts.testing", description=__doc__, allow_abbrev=False)
    parser.add_argument("tests", choices=("fast", "standard", "rest", "all", "changed"))
    parser.add_argument("--part", action="append", default=[], choices=PARTS)
    parser.add_argument("--slurm", choices=sorted(RELEASES), help="part slurm alone, on this release of Slurm")
    parser.add_argument("--name", default="", help="what the closing line begins with")
    parser.add_argument("--base", help="changed: since this commit")
    parser.add_argument("--minutes", type=float, help="changed: begin no test later than this")
    parser.add_argument("--rest", action="store_true", help="changed: without what `standard` holds")
    return parser


def _run_changed(options: argparse.Namespace, further: Sequence[str]) -> int:
    if not options.base:
        print("which commit? make test-changed BASE=commit", file=sys.stderr)
        return 2
    try:
        changed = changed_files(options.base)
    except subprocess.CalledProcessError as error:
        print("git knows no commit %r: %s" % (options.base, error.stderr.strip()), file=sys.stderr)
        return 2
    tests = affected_tests(changed)
    print(
        "==> %d files differ from %s; they affect %d test files" % (len(changed), options.base, len(tests)), flush=True
    )
    if not tests:
        return 0
    tier = "rest" if options.rest else "all"
    code = run_selection(Selection(tier, tuple(options.part), tuple(tests), options.minutes), further, "changed")
    return 0 if code == NOTHING_COLLECTED else code  # the files affected may hold no test of this tier


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
