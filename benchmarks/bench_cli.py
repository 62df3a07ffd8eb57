"""How fast the command answers: --help, list with 10,000 runs in the store, and status of one of them, against
`python -c "import click"`.

The store is made of real plans and results (synthetic.py). `list --all` is measured with its cache of finished runs
and without, as the first time after the cache was deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import synthetic
from harness import Bench, contest_rows, ratio, rounds, run

CLICK = 'python -c "import click"'
BARE = "python -c pass"
HELP = "worldsize --help"
LIST = "worldsize list"
STATUS = "worldsize status, of a run that succeeded"
FAILED = "worldsize status, of a run that failed"
ALL = "worldsize list --all"
ALL_FIRST = "worldsize list --all, without its cache"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=10_000, help="runs in the store (default: %(default)s)")


def main() -> None:
    with Bench("cli", __doc__, configure) as bench:
        started = time.monotonic()
        synthetic.fill(bench.home, bench.options.runs, time.time())
        print("made %d runs in %.1f s" % (bench.options.runs, time.monotonic() - started))
        sample = contest(bench)
        head = [
            "command, %d runs in the store" % bench.options.runs,
            "median ms",
            "10 % to 90 %",
            "over import click",
            "over bare",
        ]
        bench.table("Time to answer", head, contest_rows(sample, [CLICK, BARE]))
        bench.limit("--help, over import click", ratio(sample, HELP, CLICK).median, 2.0)
        bench.limit("status, over --help", ratio(sample, STATUS, HELP).median, 1.5)
        bench.limit("list, over import click", ratio(sample, LIST, CLICK).median, 2.0)
        bench.limit("list --all", statistics.median(sample[ALL]) * 1e3, 300, "ms")
        bench.limit("list --all, without its cache", statistics.median(sample[ALL_FIRST]) * 1e3, 300, "ms")
        bench.finish(sample)


def contest(bench: Bench) -> dict[str, list[float]]:
    environ = bench.environ()
    cache = os.path.join(bench.home, "runs", ".summaries")

    def timed(*argv: str) -> Callable[[], float]:
        return lambda: run(argv, environ, bench.work)

    def without_cache() -> float:
        os.unlink(cache)
        return run([bench.worldsize, "list", "--all"], environ, bench.work)

    run([bench.worldsize, "list", "--all"], environ, bench.work)
    if not os.path.exists(cache):
        raise RuntimeError("`list --all` keeps no cache where this benchmark looks for it: %s" % cache)
    return rounds(
        {
            CLICK: timed(sys.executable, "-c", "import click"),
            HELP: timed(bench.worldsize, "--help"),
            LIST: timed(bench.worldsize, "list"),
            STATUS: timed(bench.worldsize, "status", latest(bench, "SUCCEEDED")),
            FAILED: timed(bench.worldsize, "status", latest(bench, "FAILED")),
            BARE: timed(sys.executable, "-c", "pass"),
            ALL: timed(bench.worldsize, "list", "--all"),
            ALL_FIRST: without_cache,
        },
        bench.count(60, 5),
    )


def latest(bench: Bench, state: str) -> str:
    """The latest run in the store that ended so."""
    runs = os.path.join(bench.home, "runs")
    for name in sorted(os.listdir(runs), reverse=True):
        with open(os.path.join(runs, name, "result.json"), encoding="utf-8") as file:
            if json.load(file)["summary"]["state"] == state:
                return name
    raise RuntimeError("no run in the store is %s" % state)


if __name__ == "__main__":
    main()
