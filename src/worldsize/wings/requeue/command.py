"""The command `requeue`, which makes a run's scheduler start it again."""

from __future__ import annotations

import argparse

from worldsize.cli.console import add_run_argument, find_run
from worldsize.cli.output import report

_EXAMPLES = """examples:
  worldsize requeue 417k && worldsize logs -f 417k
  worldsize rerun 417k                        a new run instead, of the same job and code"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.set_defaults(act=run_requeue)


def run_requeue(options: argparse.Namespace) -> int:
    from worldsize.wings.requeue.requeue import requeue

    run = find_run(options.run, "requeue")
    report(f"{run.id} is back in the queue, as attempt {requeue(run)}")
    return 0
