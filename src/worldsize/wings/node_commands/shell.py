"""The command `worldsize shell`, which opens an interactive shell on one of a run's nodes."""

from __future__ import annotations

import argparse
import sys

from worldsize.cli.console import add_run_argument
from worldsize.cli.output import report
from worldsize.errors import UsageError

_EXAMPLES = """examples:
  worldsize shell                             on the first node of the latest running run
  worldsize shell 417k --node 2               on its third node; a host's name works too

The shell starts in the run's code with the environment of its ranks, without their rank variables. It ends with the
run, and leaving it does not affect the run. The exit code is the shell's."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser, meaning="a running run (default: the latest)")
    parser.add_argument("--node", metavar="NODE", help="the node: its number, or the host's name (default: 0)")
    parser.set_defaults(act=open_shell)


def open_shell(options: argparse.Namespace) -> int:
    from worldsize.wings.node_commands.running_runs import choose_nodes, find_reachable, no_running_run_error

    reached = find_reachable(options.run, "shell")
    if reached is None:
        raise no_running_run_error()
    run = reached.run
    nodes = choose_nodes([options.node or "0"], run.plan, reached.hosts)
    if len(nodes) > 1:
        raise UsageError("a shell is on one node", "--node", "for several nodes: worldsize exec")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a shell needs a terminal", None, f"without one: worldsize exec {run.id} -- COMMAND")
    host = reached.hosts.get(nodes[0])
    report("node {}{} of {}; leaving it does not affect the run".format(nodes[0], f" ({host})" if host else "", run.id))
    sys.stdout.flush()
    return reached.compute.shell(reached.handle, reached.node_command((), nodes))
