"""The command `worldsize exec`, which executes a command on every node of a run, or on nodes of its own."""

from __future__ import annotations

import argparse
import os
import signal
import time

from worldsize.cli.console import (
    add_output_option,
    add_run_argument,
    complete_computes,
    current_directory,
    load_current_config,
    parse_count,
    parse_seconds,
    set_completer,
)
from worldsize.cli.output import report
from worldsize.compute.capabilities import NodeCommandStream
from worldsize.errors import UsageError

TIMED_OUT = 124
_TICK = 0.1

_EXAMPLES = """examples:
  worldsize exec -- nvidia-smi                        on every node of the latest running run
  worldsize exec 417k --node 0,2-3 -- ps aux          on some of its nodes
  worldsize exec -- bash -c 'df -h /tmp | tail -1'    with a shell, where one is needed
  worldsize exec -w 4 -- nvcc --version               on four nodes, without a run
  worldsize exec --all -- pip3 install torch          on every usable node of the compute; on HPC Pack, --all
                                                      may be omitted while no run is running
  worldsize exec -o json -- hostname                  {"node", "host", "code", "stdout", "stderr"} for each node

The command is executed as typed, without a shell, in the run's code and in the environment of its ranks, without
waiting for the ranks' resources or disturbing them. Lines that all nodes print are folded. Ctrl-C stops it on all
nodes. The exit code is the highest of all nodes; 124 after a timeout."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "worldsize exec [options] [RUN] -- COMMAND …"
    add_run_argument(parser, meaning="a running run (default: the latest)")
    parser.add_argument(
        "--node",
        metavar="NODES",
        action="append",
        default=[],
        help="only these nodes: 0,2-3, or a host's name; may be repeated",
    )
    parser.add_argument("-w", "--world", metavar="N", type=parse_count, help="no run: N nodes")
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="no run: nodes of this compute (one, on HPC Pack all)"
    )
    set_completer(compute, complete_computes)
    parser.add_argument(
        "-a", "--all", action="store_true", help="no run: every usable node of the compute, once all have room"
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=parse_seconds, help="stop the command after this time, with code 124"
    )
    parser.add_argument(
        "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all nodes (default: same)"
    )
    add_output_option(parser)
    parser.set_defaults(act=execute)


def execute(options: argparse.Namespace) -> int:
    from worldsize.wings.node_commands.running_runs import choose_nodes, find_reachable

    own_nodes = options.all or options.world is not None or options.compute is not None
    _check(options, own_nodes)
    reached = None if own_nodes else find_reachable(options.run, "exec")
    if reached is None:
        nodes, stream = _start_on_own_nodes(options, own_nodes)
        heard = _hear_interrupts()
    else:
        nodes = choose_nodes(options.node, reached.run.plan, reached.hosts)
        heard = _hear_interrupts()
        stream = reached.compute.execute(reached.handle, reached.node_command(options.words, nodes))
    try:
        return _follow(options, nodes, stream, heard)
    finally:
        stream.close()


def _check(options: argparse.Namespace, own_nodes: bool) -> None:
    if not options.words or not options.words[0]:
        words = ["--", options.run] if options.words is None and options.run else ["--", "nvidia-smi"]
        raise UsageError("no command after --", None, f"worldsize exec {' '.join(words)}")
    for wrong, what in (
        (options.all and options.world is not None, "both -w and --all set the number of nodes"),
        (own_nodes and options.run is not None, f"both a run ({options.run}) and nodes without a run"),
        (options.output == "json" and options.fold, "-o json and --fold cannot be combined"),
    ):
        if wrong:
            raise UsageError(what, None, "leave one of them out")
    if own_nodes and options.node:
        raise UsageError(
            "--node chooses among the nodes of a run", "--node", "without a run set the number of nodes: -w 2"
        )
    if options.world == 0:
        raise UsageError("0 is not a number of nodes", "-w")


def _start_on_own_nodes(options: argparse.Namespace, asked: bool) -> tuple[tuple[int, ...], NodeCommandStream]:
    """Start the command of `worldsize exec` on nodes without a run, either because the user `asked` for them or because
    no run is running. Return the numbers of the nodes and the stream of events. It may take a while until there are
    nodes; an interrupt gives up at once."""
    from worldsize.service.compute_nodes import execute_on_own_nodes, left_out_notice, usable_nodes
    from worldsize.service.computes import choose_compute, open_compute
    from worldsize.wings.node_commands.running_runs import no_running_run_error

    config = load_current_config()
    compute = open_compute(config, choose_compute(config, options.compute, None), os.environ)
    everywhere = "everywhere" in compute.capabilities and options.world is None
    if not asked:
        if options.node or not everywhere:
            raise no_running_run_error()
        report(f"no run is running: on every node of {compute.name}")
    names, left_out = usable_nodes(compute) if options.all or everywhere else ((), 0)
    if left_out:
        report(left_out_notice(left_out))
    number = len(names) or options.world or 1
    stream = execute_on_own_nodes(compute, options.words, number, current_directory(), options.timeout, names)
    return tuple(range(number)), stream


def _hear_interrupts() -> list[int]:
    """Collect SIGINT, SIGTERM and SIGHUP from now on, so that they can be forwarded to the commands. Return the list to
    which the signal numbers are added."""
    heard: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: heard.append(number))
    return heard


def _follow(options: argparse.Namespace, nodes: tuple[int, ...], stream: NodeCommandStream, heard: list[int]) -> int:
    from worldsize.wings.node_commands.node_output import CollectedResults, FoldedResults

    as_json = options.output == "json"
    gathered = CollectedResults(nodes) if as_json else FoldedResults(nodes, options.fold, time.monotonic)
    deadline = None if options.timeout is None else time.monotonic() + options.timeout
    told, late = 0, False
    while (said := stream.read_events(_TICK)) is not None:
        gathered.take(said)
        if deadline is not None and not late and time.monotonic() > deadline:
            late = True
            report(f"it {gathered.progress()} after {options.timeout:g} s: stopping it")
            stream.stop()
        if len(heard) > told:
            told = len(heard)
            if told > 1:
                stream.close()
                break
            report(f"it {gathered.progress()}: stopping it (again: at once)")
            stream.stop()
    gathered.finish()
    if heard:
        return 128 + heard[0]
    for line in gathered.failures():
        report(line)
    return TIMED_OUT if late else gathered.code
