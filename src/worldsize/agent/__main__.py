"""The agent program: the cluster starts one agent for each node of an attempt.

    python agent.pyz RUN_DIR (--node-rank N | --node-rank-var SLURM_NODEID) [--attempt K] [--address ADDRESS]
                             [--launcher PID [--starter PID]]
    python agent.pyz RUN_DIR --node-rank N --attempt-var NAME --prepare      if no batch script runs first
    python agent.pyz RUN_DIR --conduct                   all nodes, on this machine
    python agent.pyz RUN_DIR --queue                     the runs of an array, or one waiting run, on this machine

Node 0 is the head. It publishes its address in the run directory, where the other agents read it. The exit code is that
of the first failure, on every node; 2 if the agent could not begin.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from worldsize.agent.arguments import AgentOptions, parse_arguments
from worldsize.agent.control.address import ADDRESS, own_address
from worldsize.agent.control.rendezvous import HeadResources, Rendezvous, open_head, wait_for_rendezvous
from worldsize.agent.keeper import run_under_keeper
from worldsize.agent.launchers.base import choose_launcher
from worldsize.agent.outcome.node_record import note, write_follower_record, write_unstarted_record
from worldsize.agent.outcome.notifications import Notifications
from worldsize.agent.posix.processes import close_terminal_at_exec
from worldsize.agent.posix.signals import ignore_notices
from worldsize.agent.startup.attempt_number import require_own_attempt
from worldsize.agent.supervision.supervisor import Supervisor
from worldsize.common.named_tuple import NoReturn
from worldsize.common.numbers import parse_digits
from worldsize.errors import RendezvousError, RunFailed, UsageError, WorldsizeError
from worldsize.plan.launchers import load_launchers
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import LOOPBACK
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import read_masked_plan, with_secrets
from worldsize.state.exit_records import read_exit
from worldsize.state.records import Reason
from worldsize.trust.procfs import withdraw_variables


def main(argv: list[str]) -> int:
    ignore_notices()
    try:
        options = parse_arguments(argv)
        if options.queue:
            return _run_queue(options.run_dir)
        plan, paths = _plan(options.run_dir, options.attempt)
        if options.conduct:
            os.umask(plan.umask)
            if plan.terminal:
                close_terminal_at_exec()
            from worldsize.agent.local.conductor import Conductor

            return Conductor(with_secrets(plan, paths), paths, os.environ).run()
        node_rank = _node_rank(options, len(plan.agents))
        plan = _plan_with_secrets(plan, paths, node_rank)
        withdraw_variables(plan.secrets)
        if options.attempt_var:
            from worldsize.agent.startup.attempt_number import choose_attempt

            plan, paths = choose_attempt(plan, paths, node_rank, os.environ.get(options.attempt_var, ""))
        return _run_with_keeper(plan, paths, node_rank, options)
    except WorldsizeError as error:
        note(f"worldsize agent: {error}")
        return error.exit_code


def _plan(run_dir: str, attempt: int) -> tuple[Plan, RunPaths]:
    paths = RunPaths(os.path.abspath(run_dir), attempt)
    try:
        return read_masked_plan(paths)._replace(attempt=attempt), paths
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", paths.plan, "the first argument is the run directory"
        ) from None
    except ValueError as error:
        raise UsageError(f"cannot be used: {error}", paths.plan) from None


def _plan_with_secrets(plan: Plan, paths: RunPaths, node_rank: int) -> Plan:
    try:
        return with_secrets(plan, paths)
    except UsageError as error:
        for directory in paths.directories():
            os.makedirs(directory, 0o777 & ~plan.umask, exist_ok=True)
        write_unstarted_record(plan, paths, node_rank, str(error), Reason.ENVIRONMENT, error.exit_code)
        raise


def _run_queue(run_dir: str) -> int:
    from worldsize.agent.local.run_queue import RunQueue

    try:
        return RunQueue(os.path.abspath(run_dir), os.environ).run()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be used: {error}", run_dir) from None


def _node_rank(options: AgentOptions, nodes: int) -> int:
    if options.node_rank is not None:
        where, text = "--node-rank", str(options.node_rank)
    else:
        where = options.node_rank_var
        text = os.environ.get(where, "")
        if not text:
            raise UsageError("not set, so the number of this node is unknown", where, "start one agent per node")
    number = parse_digits(text)
    if number is None or number >= nodes:
        known = "node 0 only" if nodes == 1 else f"nodes 0 to {nodes - 1}"
        raise UsageError(f"{text!r:.40} is not a node of this run, which has {known}", where)
    return number


def _run_with_keeper(plan: Plan, paths: RunPaths, node_rank: int, options: AgentOptions) -> int:
    os.umask(plan.umask)
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    require_own_attempt(paths)
    return run_under_keeper(
        plan,
        paths,
        node_rank,
        options.launcher,
        options.starter,
        lambda lifeline, notifications: _run(plan, paths, node_rank, options, lifeline, notifications),
    )


def _run(
    plan: Plan, paths: RunPaths, node_rank: int, options: AgentOptions, lifeline: int, notifications: Notifications
) -> int:
    environ: Mapping[str, str] = os.environ
    if options.prepare:
        from worldsize.agent.startup.prerequisites import run_prerequisites

        environ = run_prerequisites(plan, paths, node_rank, environ)
    address = options.address or environ.get(ADDRESS)
    try:
        load_launchers(plan, paths)
        if plan.array and node_rank == 0:  # before the head publishes its address: the other nodes wait for that
            from worldsize.agent.startup.array_element import complete_own_element

            complete_own_element(plan, paths)
        rendezvous, head = _join_rendezvous(plan, paths, node_rank, address, environ)
        supervisor = Supervisor(
            plan, paths, node_rank, rendezvous, head, environ, lifeline, address, True, notifications
        )
    except (WorldsizeError, OSError) as error:
        ended = read_exit(paths, 0) if node_rank else None
        if ended is not None and ended.code:
            write_follower_record(paths, node_rank, ended)
            what = f"the head (node 0) ended with code {ended.code} before this node joined it"
            raise RunFailed(what, ended.code) from None
        write_unstarted_record(plan, paths, node_rank, f"node {node_rank}: {error}")
        raise error if isinstance(error, WorldsizeError) else RendezvousError(str(error)) from None
    return supervisor.run()


def _join_rendezvous(
    plan: Plan, paths: RunPaths, node_rank: int, address: str | None, environ: Mapping[str, str]
) -> tuple[Rendezvous, HeadResources | None]:
    if node_rank == 0:
        address = address or (LOOPBACK if len(plan.agents) == 1 else own_address())
        head = open_head(plan, paths, address, choose_launcher(plan, environ))
        return head.rendezvous, head
    rendezvous = wait_for_rendezvous(paths, plan.rendezvous_timeout)
    if rendezvous is None:
        raise RendezvousError(
            f"the head (node 0) did not publish within {plan.rendezvous_timeout:g} s its address",
            paths.rendezvous,
            "did node 0 start, and does this node see the same run directory?",
        )
    return rendezvous, None


def run_and_exit() -> NoReturn:
    """Run the node's agent with this process's command-line arguments, and end the process with the agent's exit code.
    `os._exit` skips the shutdown of the interpreter, as in forked agents, because the shutdown takes milliseconds,
    twice if there is a keeper."""
    code = main(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # the stream may be None, and the log may be on a full disk
            pass
    os._exit(code)


if __name__ == "__main__":
    run_and_exit()
