"""Runs the corpus by `worldsize run` with a watchdog, and writes docs/explanation/hang-accuracy.md: `make hangs`.

PYTHONPATH=tests python -m hangs                       each program that hangs, on this machine
PYTHONPATH=tests python -m hangs loader mpi-ring       these, or those whose ids begin so
PYTHONPATH=tests python -m hangs --healthy             programs that are slow and well
PYTHONPATH=tests python -m hangs --slurm               on the tests' Slurm cluster
PYTHONPATH=tests python -m hangs --default-limit ID…   with the default limit of 300 s
PYTHONPATH=tests python -m hangs --page                the page alone, of the results there are
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

from driver import Cli, agent_bundle
from slurm.cluster import Cluster
from slurm.login import login_of

from hangs.cases import HangCase, all_cases
from hangs.harness import lacks
from hangs.healthy import HealthyCase, all_healthy
from hangs.page import PAGE, page_text
from hangs.results import WRONG, Outcome, read_results, write_results
from hangs.watched_runs import DEFAULT_LIMIT, LIMIT, watched_run


def asked(words: argparse.Namespace) -> list[HangCase | HealthyCase]:
    """The cases that were asked for; on Slurm those that need nothing of their own."""
    every: list[HangCase | HealthyCase] = list(all_healthy() if words.healthy else all_cases())
    if words.ids:
        every = [case for case in every if case.id.startswith(tuple(words.ids))]
    if words.slurm:
        every = [case for case in every if not case.needs]
    return every


@contextlib.contextmanager
def command_line(cluster: Cluster | None) -> Iterator[Cli]:
    """In a folder of its own; where there is a cluster, as on its login node."""
    if cluster is not None:
        with login_of(cluster) as login:
            yield login
        return
    with tempfile.TemporaryDirectory(prefix="hangs-") as folder:
        cli = Cli(folder)
        try:
            yield cli
        finally:
            cli.close()


def run_case(case: HangCase | HealthyCase, cluster: Cluster | None, limit: float) -> Outcome:
    with command_line(cluster) as cli:
        return watched_run(cli, case, limit)


def run_all(words: argparse.Namespace) -> list[Outcome]:
    """Run the cases, some at once, and keep each result as it comes."""
    found = []
    agent_bundle()  # once, not in each thread
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster.start()) if words.slurm else None
        pool = ThreadPoolExecutor(words.jobs)
        stack.callback(pool.shutdown, cancel_futures=True)
        limit = DEFAULT_LIMIT if words.default_limit else LIMIT
        waiting = {}
        for case in asked(words):
            missing = lacks(case.needs)
            if missing:
                print("%s: left out: %s" % (case.id, missing), flush=True)
            else:
                waiting[pool.submit(run_case, case, cluster, limit)] = case
        for done in as_completed(waiting):
            try:
                outcome = done.result()
            except Exception as error:  # noqa: BLE001  the other cases have their turn, and this one keeps its result
                print("%s: not run: %s: %s" % (waiting[done].id, type(error).__name__, error), flush=True)
                continue
            found.append(outcome)
            write_results([*{**read_results(), (outcome.where, outcome.case): outcome}.values()])
            print("%-42s %-16s %s" % (outcome.case, outcome.outcome, outcome.said), flush=True)
    return found


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m hangs", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="cases, or how their ids begin (default: all)")
    parser.add_argument("--healthy", action="store_true", help="programs that are slow and well")
    parser.add_argument("--slurm", action="store_true", help="on the tests' Slurm cluster")
    parser.add_argument("--default-limit", action="store_true", help="with the default limit of 300 s")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="how many runs at once (default: 2)")
    parser.add_argument("--page", action="store_true", help="run nothing, write the page alone")
    words = parser.parse_args(argv)
    outcomes = [] if words.page else run_all(words)
    known = {case.id for case in (*all_cases(), *all_healthy())}
    results = {key: each for key, each in read_results().items() if each.case in known}
    write_results(results.values())
    PAGE.write_text(page_text(results))
    counts = Counter(each.outcome for each in outcomes)
    print("%d runs: %s" % (len(outcomes), ", ".join("%s %d" % item for item in counts.most_common())))
    return 1 if counts[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
