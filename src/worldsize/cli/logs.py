"""logs: what the ranks wrote."""

from __future__ import annotations

import argparse
import json
import sys
import time

from worldsize.cli.shared import add_output, add_run, find_run
from worldsize.service.run import Run

_EXAMPLES = """examples:
  worldsize logs                          all ranks of the latest run, lines equal on all ranks folded
  worldsize logs -f --rank 0              follow rank 0
  worldsize logs --node 1 --tail 20       the last lines of every rank of node 1
  worldsize logs --grep 'loss' --fold numbers
  worldsize logs --rank 3 --raw > rank3.txt

Lines of one rank are always in its order; across ranks in order of arrival while the run is live (-f), and by rank
afterwards: the files carry no time stamps."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run(parser)
    parser.add_argument("-f", "--follow", action="store_true", help="go on until the run ends")
    parser.add_argument("--rank", metavar="RANKS", help="only these ranks, such as 0,5,8-11")
    parser.add_argument("--node", metavar="NODES", help="only the ranks of these nodes")
    parser.add_argument("--grep", metavar="REGEX", help="only lines in which it is found")
    parser.add_argument("--tail", metavar="N", type=_count, help="begin with the last N lines of each rank")
    parser.add_argument(
        "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all ranks (default: same)"
    )
    parser.add_argument("--raw", action="store_true", help="the bytes as they are, without prefixes")
    add_output(parser)
    parser.set_defaults(act=logs)


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("%d is negative" % value)
    return value


def logs(options: argparse.Namespace) -> int:
    from worldsize.logs.selection import compile_grep, select_ranks
    from worldsize.logs.view import Follower, RawFollower

    run = find_run(options.run)
    ranks = select_ranks(run.plan.nodes, options.rank, options.node)
    if options.output == "json":
        return _json(run, ranks, options)
    reader: Follower | RawFollower
    if options.raw:
        reader = RawFollower(run.paths, ranks, _write_bytes, options.tail)
    else:
        grep = compile_grep(options.grep) if options.grep else None
        live = options.follow and not run.look().final
        reader = Follower(
            run.paths, run.plan.nodes, ranks, options.fold, grep, _write, time.monotonic, tail=options.tail, live=live
        )
    code = 0
    if options.follow:
        code = _follow(run, reader)
    reader.finish()
    return code


def _follow(run: Run, reader: object) -> int:
    """The run's exit code once it has ended; leaving by Ctrl-C leaves the run alone."""
    status = run.look()
    if not status.final:
        status = run.follow(reader.poll)  # type: ignore[attr-defined]
    return status.exit_code or 0


def _json(run: Run, ranks: tuple[int, ...], options: argparse.Namespace) -> int:
    """One JSON object a line: {"rank", "node", "line"}."""
    from worldsize.logs.selection import compile_grep
    from worldsize.logs.tail import read_text

    grep = compile_grep(options.grep) if options.grep else None
    node_of = {rank.rank: node.node_rank for node in run.plan.nodes for rank in node.ranks}
    if options.follow:
        run.follow(lambda: False)
    for rank in ranks:
        lines = read_text(run.paths.rank_log(rank)).splitlines()
        for line in lines[-options.tail or len(lines) :] if options.tail is not None else lines:
            if grep is None or grep.search(line):
                _write(json.dumps({"rank": rank, "node": node_of[rank], "line": line}, ensure_ascii=False) + "\n")
    return 0


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_bytes(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
