"""exec: a command on every node of a run, or on nodes of its own."""

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
    find_run,
    load_current_config,
    parse_count,
    parse_seconds,
    set_completer,
)
from worldsize.cli.output import report
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NodeCommandStream
from worldsize.errors import UsageError

TIMED_OUT = 124
_TICK = 0.1

_EXAMPLES = """examples:
  worldsize exec -- nvidia-smi                        on every node of the latest running run
  worldsize exec 417k --node 0,2-3 -- ps aux          on some of them
  worldsize exec -- bash -c 'df -h /tmp | tail -1'    a shell of your own, where you want one
  worldsize exec -w 4 -- nvcc --version               on four nodes of their own, without a run
  worldsize exec --all -- pip3 install torch          on every node that the compute can use; on HPC Pack, --all
                                                      may be left out while no run runs
  worldsize exec -o json -- hostname                  {"node", "host", "code", "stdout", "stderr"} for each node

The command is executed as typed, without a shell, in the run's code and in the environment of its ranks, and neither
waits for what they hold nor disturbs them. Lines that all nodes print are folded. Ctrl-C ends it on all nodes. The
exit code is the highest of all nodes'; 124 when --timeout is over."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.usage = "worldsize exec [options] [RUN] -- COMMAND …"
    add_run_argument(parser, meaning="a run that runs; the latest of them when left out")
    parser.add_argument(
        "--node", metavar="NODES", action="append", default=[], help="only these nodes: 0,2-3, or a host's name"
    )
    parser.add_argument("-w", "--world", metavar="N", type=parse_count, help="no run: N nodes of their own")
    compute = parser.add_argument(
        "--compute", metavar="NAME", help="no run: nodes of this compute (one, on HPC Pack all)"
    )
    set_completer(compute, complete_computes)
    parser.add_argument("-a", "--all", action="store_true", help="no run: every usable node of the compute")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=parse_seconds, help="end the command after so long, code 124"
    )
    parser.add_argument(
        "--fold", choices=("same", "numbers", "off"), help="fold lines equal on all nodes (default: same)"
    )
    add_output_option(parser)
    parser.set_defaults(act=execute)


def execute(options: argparse.Namespace) -> int:
    _check(options)
    nodes, stream, interrupts = _start(options)
    try:
        return _follow(options, nodes, stream, interrupts)
    finally:
        stream.close()


def _check(options: argparse.Namespace) -> None:
    if not options.words or not options.words[0]:
        words = ["--", options.run] if options.words is None and options.run else ["--", "nvidia-smi"]
        raise UsageError("no command after --", None, f"worldsize exec {' '.join(words)}")
    if options.all and options.world is not None:
        raise UsageError("both -w and --all say how many nodes", None, "leave one of them out")
    alone = _has_own_nodes(options)
    if alone and options.run is not None:
        raise UsageError(f"both a run ({options.run}) and nodes of their own", None, "leave one of them out")
    if alone and options.node:
        raise UsageError("--node chooses among the nodes of a run", "--node", "without a run say how many: -w 2")
    if options.world == 0:
        raise UsageError("0 is no number of nodes", "-w")
    if options.output == "json" and options.fold:
        raise UsageError("-o json and --fold do not go together", None, "leave one of them out")


def _has_own_nodes(options: argparse.Namespace) -> bool:
    return options.all or options.world is not None or options.compute is not None


def _start(options: argparse.Namespace) -> tuple[tuple[int, ...], NodeCommandStream, _Interrupts]:
    """What has begun on a run's nodes is ended by an interrupt as `_follow` does it, however early that comes."""
    from worldsize.wings.node_commands import running_runs

    if _has_own_nodes(options):
        compute = _open_compute(options)
        return _start_on_own_nodes(
            options, compute, options.all or (_may_run_everywhere(compute) and options.world is None)
        )
    home = load_current_config().home
    reached = (
        running_runs.find_running(find_run(options.run), "exec")
        if options.run
        else running_runs.find_newest_running(home, os.environ, "exec")
    )
    if reached is None:
        compute = _open_compute(options)
        if options.node or not _may_run_everywhere(compute):
            raise running_runs.no_running_run_error()
        report(f"no run is running: on every node of {compute.name}")
        return _start_on_own_nodes(options, compute, True)
    nodes = running_runs.choose_nodes(options.node, reached.run.plan, reached.hosts)
    interrupts = _Interrupts()
    return nodes, reached.execute(options.words, nodes), interrupts


def _open_compute(options: argparse.Namespace) -> Compute:
    from worldsize.service.computes import choose_compute, open_compute

    config = load_current_config()
    return open_compute(config, choose_compute(config, options.compute, None), os.environ)


def _may_run_everywhere(compute: Compute) -> bool:
    return "everywhere" in compute.capabilities


def _start_on_own_nodes(
    options: argparse.Namespace, compute: Compute, everywhere: bool
) -> tuple[tuple[int, ...], NodeCommandStream, _Interrupts]:
    """To get nodes may take a while, and is given up at once when it is interrupted."""
    from worldsize.service.compute_nodes import execute_on_own_nodes

    names = _usable_node_names(compute) if everywhere else ()
    number = len(names) or options.world or 1
    stream = execute_on_own_nodes(compute, options.words, number, current_directory(), options.timeout, names)
    return tuple(range(number)), stream, _Interrupts()


def _usable_node_names(compute: Compute) -> tuple[str, ...]:
    """The names of the compute's usable nodes; how many are left out is said."""
    from worldsize.service.compute_nodes import left_out_notice, usable_nodes

    names, left_out = usable_nodes(compute)
    if left_out:
        report(left_out_notice(left_out))
    return names


class _Interrupts:
    """What came from the terminal, or from whoever wants us to end; the commands are told of it."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda number, _: self.heard.append(number))


def _follow(
    options: argparse.Namespace, nodes: tuple[int, ...], stream: NodeCommandStream, interrupts: _Interrupts
) -> int:
    from worldsize.wings.node_commands.node_output import CollectedResults, FoldedResults

    as_json = options.output == "json"
    gathered = CollectedResults(nodes) if as_json else FoldedResults(nodes, options.fold, time.monotonic)
    deadline = None if options.timeout is None else time.monotonic() + options.timeout
    told, late = 0, False
    while (said := stream.read_events(_TICK)) is not None:
        gathered.take(said)
        if deadline is not None and not late and time.monotonic() > deadline:
            late = True
            report(f"it {gathered.progress()} after {options.timeout:g} s: ending it")
            stream.stop()
        if len(interrupts.heard) > told:
            told = len(interrupts.heard)
            if told > 1:
                stream.close()
                break
            report(f"it {gathered.progress()}: ending it (again: at once)")
            stream.stop()
    gathered.finish()
    if interrupts.heard:
        return 128 + interrupts.heard[0]
    for line in gathered.failures():
        report(line)
    return TIMED_OUT if late else gathered.code
