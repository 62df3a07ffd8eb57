"""logs: what the ranks wrote."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Protocol

from worldsize.cli.shared import add_output, add_run, count, find_run
from worldsize.service.run import Run

_PAUSE = 0.1

_EXAMPLES = """examples:
  worldsize logs                          all ranks of the latest run, lines equal on all ranks folded
  worldsize logs -f --rank 0              follow rank 0
  worldsize logs --node 1 --tail 20       the last lines of every rank of node 1
  worldsize logs --grep 'loss' --fold numbers
  worldsize logs --rank 3 --raw > rank3.txt
  worldsize logs -o json                  {"rank", "node", "line"} for each line

Lines of one rank are always in its order; across ranks in order of arrival while the run is live (-f), and by rank
afterwards: the files carry no time stamps. With -f the exit code is the run's; Ctrl-C leaves the run alone."""


class Reader(Protocol):
    def poll(self) -> bool:
        """Show what is new; whether there was something."""

    def finish(self) -> None:
        """Show the rest."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--rank", metavar="RANKS", help="only these ranks, such as 0,5,8-11")
    parser.add_argument("--node", metavar="NODES", help="only the ranks of these nodes")
    parser.add_argument("--grep", metavar="REGEX", help="only lines in which it is found")
    parser.add_argument("--tail", metavar="N", type=count, help="begin with the last N lines of each rank")
    parser.add_argument(
        "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
    )
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, without prefixes")
    add_output(parser)
    parser.set_defaults(act=logs)


def logs(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    if options.follow:
        _await_plan(run)
    reader = _reader(run, options)
    code = 0
    if options.follow:
        status = run.follow(reader.poll)
        code = status.exit_code or 0
    reader.finish()
    return code


def _await_plan(run: Run) -> None:
    """A run that is still being prepared has no ranks to follow yet."""
    while not os.path.exists(run.paths.plan) and not run.look().final:
        time.sleep(_PAUSE)


def _reader(run: Run, options: argparse.Namespace) -> Reader:
    from worldsize.logs.selection import compile_grep, select_ranks
    from worldsize.logs.view import Follower, RawFollower

    _check(options)
    nodes = run.plan.nodes
    ranks = select_ranks(nodes, options.rank, options.node)
    grep = compile_grep(options.grep) if options.grep else None
    if options.raw:
        return RawFollower(run.paths, ranks, _write_bytes, options.tail)
    if options.output == "json":
        from worldsize.cli.jsonlogs import JsonLines

        return JsonLines(run.paths, nodes, ranks, grep, _write, options.tail)
    live = options.follow and not run.look().final
    return Follower(run.paths, nodes, ranks, options.fold, grep, _write, time.monotonic, tail=options.tail, live=live)


def _check(options: argparse.Namespace) -> None:
    """Raises UsageError for options of which one would be without effect."""
    from worldsize.errors import UsageError

    for one, other in (("raw", "grep"), ("raw", "fold"), ("raw", "output"), ("output", "fold")):
        if _given(options, one) and _given(options, other):
            names = {"output": "-o json"}
            what = "%s and %s do not go together" % (names.get(one, "--" + one), names.get(other, "--" + other))
            raise UsageError(what, None, "leave one of them out")


def _given(options: argparse.Namespace, name: str) -> bool:
    return getattr(options, name) not in (None, False, "text")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
