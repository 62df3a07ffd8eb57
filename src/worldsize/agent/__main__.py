"""The agent as a program: one for each node of an attempt, started by the cluster.

    python agent.pyz RUN_DIR (--node-rank N | --node-rank-var SLURM_NODEID) [--attempt K] [--address ADDRESS]
    python agent.pyz RUN_DIR --conduct                   all nodes, on this machine

Node 0 is the head: it publishes its address in the run directory, where the others read it.
Exit code: the first failure's, on every node; 2 where it could not begin.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from worldsize.agent.address import own_address
from worldsize.agent.conductor import Conductor
from worldsize.agent.rendezvous import Head, Rendezvous, open_head, wait_published
from worldsize.agent.report import write_unstarted
from worldsize.agent.supervise import Supervisor
from worldsize.errors import RendezvousError, UsageError, WorldsizeError
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths


def main(argv: list[str]) -> int:
    try:
        options = _options(argv)
        if options.attempt < 0:
            raise UsageError("%d is no attempt: they count from 0" % options.attempt, "--attempt")
        plan, paths = _plan(options.run_dir, options.attempt)
        if options.conduct:
            os.umask(plan.umask)
            return Conductor(plan, paths, os.environ).run()
        node_rank = _node_rank(options, len(plan.nodes))
        return _run(plan, paths, node_rank, options.address)
    except WorldsizeError as error:
        print("worldsize agent: %s" % error, file=sys.stderr)
        return error.exit_code


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("agent.pyz", description="One node of a worldsize run.", allow_abbrev=False)
    parser.add_argument("run_dir", help="the run directory, shared by all nodes")
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--node-rank", type=int, help="which node of the plan this is; 0 is the head")
    who.add_argument("--node-rank-var", metavar="NAME", help="the environment variable that says so")
    who.add_argument("--conduct", action="store_true", help="start every node's agent here, as virtual nodes")
    parser.add_argument("--attempt", type=int, default=0)
    parser.add_argument("--address", help="where the other nodes reach this one, should it be the head")
    return parser.parse_args(argv)


def _plan(run_dir: str, attempt: int) -> tuple[Plan, RunPaths]:
    paths = RunPaths(os.path.abspath(run_dir), attempt)
    try:
        with open(paths.plan, encoding="utf-8") as file:
            return Plan.from_json(file.read())._replace(attempt=attempt), paths
    except OSError as error:
        raise UsageError(
            "cannot be read: %s" % error.strerror, paths.plan, "the first word is a run directory"
        ) from None
    except ValueError as error:
        raise UsageError("cannot be used: %s" % error, paths.plan) from None


def _node_rank(options: argparse.Namespace, nodes: int) -> int:
    if options.node_rank is not None:
        where, text = "--node-rank", str(options.node_rank)
    else:
        where = options.node_rank_var
        text = os.environ.get(where, "")
        if not text:
            raise UsageError("not set, so this node cannot know which one it is", where, "start one agent per node")
    if not text.isdigit() or int(text) >= nodes:
        raise UsageError("%r is no node of this run, which has %s" % (text, _span(nodes)), where)
    return int(text)


def _span(nodes: int) -> str:
    return "node 0 only" if nodes == 1 else "nodes 0 to %d" % (nodes - 1)


def _run(plan: Plan, paths: RunPaths, node_rank: int, address: str | None) -> int:
    os.umask(plan.umask)
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    try:
        rendezvous, head = _meet(plan, paths, node_rank, address)
    except (RendezvousError, OSError) as error:
        write_unstarted(plan, paths, node_rank, "node %d: %s" % (node_rank, error))
        raise error if isinstance(error, WorldsizeError) else RendezvousError(str(error)) from None
    return Supervisor(plan, paths, node_rank, rendezvous, head, os.environ).run()


def _meet(plan: Plan, paths: RunPaths, node_rank: int, address: str | None) -> tuple[Rendezvous, Head | None]:
    if node_rank == 0:
        head = open_head(plan, paths, address or ("127.0.0.1" if len(plan.nodes) == 1 else own_address()))
        return head.rendezvous, head
    rendezvous = wait_published(paths, plan.rendezvous_timeout)
    if rendezvous is None:
        raise RendezvousError(
            "the head (node 0) did not say within %g s where it is" % plan.rendezvous_timeout,
            paths.rendezvous,
            "did node 0 start, and does this node see the same run directory?",
        )
    return rendezvous, None


def _exit() -> NoReturn:
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    _exit()
