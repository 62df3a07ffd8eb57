"""Which processes a node starts: its ranks, a launcher that starts them, or the user's batch script; and the files that
a launcher needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.agent.control.rendezvous import leaves_launcher_open
from worldsize.agent.launchers.rank_process import Process, rank_processes
from worldsize.common.atomic_files import write_text
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.node_names import node_names, short_names
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.rank_environment import RendezvousResult, has_hostfile
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.launchers.rank_process import Process, Shares


RANK_FILE_LAUNCHERS = ("mpirun", "srun")
"""Launchers on the head that start the ranks of all nodes, each of which becomes one by a file."""


def launcher_process(
    plan: Plan,
    world: RendezvousResult,
    node: NodePlan,
    paths: RunPaths,
    ranks: Iterator[Process],
    inherited: Mapping[str, str],
) -> Process:
    """What the agent starts in place of the node's `ranks`."""
    every = tuple(rank.rank for rank in node.ranks)
    log = paths.launcher_log(node.node_rank, plan.launcher)
    first = next(ranks)
    own = first._replace(ranks=every, log=log, cpus=())
    if plan.launcher == "autotune":
        from worldsize.agent.launchers.autotune import tuner_argv

        own = own if node.node_rank else own._replace(log=first.log)
        return own._replace(argv=tuner_argv(node, paths), environment=inherited)
    if plan.launcher == "deepspeed":
        return own._replace(environment=_deepspeed_environment(plan, node, paths, [first, *ranks]))
    if plan.launcher in RANK_FILE_LAUNCHERS:
        environment = _environment(plan, world, paths, first, inherited)
        return own._replace(argv=_argv(plan, node, paths, environment), environment=environment)
    from worldsize.agent.launchers.torchrun import torchrun_argv, torchrun_environment

    environment = torchrun_environment(plan, first.environment)
    return own._replace(argv=torchrun_argv(plan, world, node, paths, environment), environment=environment)


def _environment(
    plan: Plan, world: RendezvousResult, paths: RunPaths, first: Process, inherited: Mapping[str, str]
) -> Mapping[str, str]:
    if plan.launcher == "srun":
        from worldsize.agent.launchers.slurm_srun import srun_environment

        return srun_environment(plan, paths, first.environment, inherited)
    from worldsize.agent.launchers.mpirun import mpirun_environment

    return mpirun_environment(plan, paths, first.environment, _is_crowded(plan, world))


def _deepspeed_environment(plan: Plan, node: NodePlan, paths: RunPaths, ranks: Sequence[Process]) -> Mapping[str, str]:
    from worldsize.agent.launchers.deepspeed import deepspeed_environment

    return deepspeed_environment(ranks, paths, node, str(plan.options.get("autotuning", "")))


def _is_crowded(plan: Plan, world: RendezvousResult) -> bool:
    ranks: dict[str, int] = {}
    for node, host in zip(plan.nodes, world.hosts):
        ranks[host.name] = ranks.get(host.name, 0) + len(node.ranks)
    return any(ranks[host.name] > host.cores > 0 for host in world.hosts)


def _argv(plan: Plan, node: NodePlan, paths: RunPaths, environment: Mapping[str, str]) -> tuple[str, ...]:
    """On the head the launcher; on another node what waits there, until the head ends it or says what to execute."""
    from worldsize.agent.launchers.mpirun import mpirun_argv, waiting_argv

    if node.node_rank:
        return waiting_argv(plan)
    if plan.launcher == "mpirun":
        return mpirun_argv(plan, paths, environment)
    from worldsize.agent.launchers.slurm_srun import srun_argv

    return srun_argv(plan, paths)


def choose_launcher(plan: Plan, environ: Mapping[str, str]) -> str:
    """The launcher that the head chooses by what its node has: the plan's own, or the other one that the plan names.
    Empty where the plan leaves no choice."""
    if not leaves_launcher_open(plan):
        return ""
    from worldsize.agent.launchers.mpirun import has_open_mpi

    return plan.launcher if has_open_mpi(plan, environ) else str(plan.options["otherwise"])


def prepare_launch(
    plan: Plan, world: RendezvousResult, node: NodePlan, paths: RunPaths, environ: Mapping[str, str], shares: Shares
) -> Mapping[str, str]:
    """Makes ready what a launcher, or the ranks, find on this node: files, a server. Raises OSError.

    `environ`, as the ranks are to inherit it.
    """
    if plan.launcher == "autotune":
        from worldsize.agent.launchers.autotune import write_order

        write_order(plan, world, node, paths)
        return environ
    write_hostfile(plan, world, paths)
    if plan.framework == "horovod":
        environ = _start_horovod(plan, world, node, paths, environ)
    if plan.launcher in RANK_FILE_LAUNCHERS or plan.launcher == "deepspeed":
        from worldsize.agent.launchers.rank_process import rank_processes

        os.makedirs(paths.launch_dir, 0o700, exist_ok=True)
        ranks = list(rank_processes(plan, world, node, paths, environ, shares))
        _write_launch_files(plan, world, node, paths, environ, ranks)
    return environ


def _start_horovod(
    plan: Plan, world: RendezvousResult, node: NodePlan, paths: RunPaths, environ: Mapping[str, str]
) -> Mapping[str, str]:
    from worldsize.agent.launchers.horovod import start_rendezvous_server, with_interface
    from worldsize.agent.launchers.rank_process import rank_processes

    environ = with_interface(plan, world, node.node_rank, environ)
    if node.node_rank == 0:
        start_rendezvous_server(plan, world, paths, next(rank_processes(plan, world, node, paths, environ)).environment)
    return environ


def _write_launch_files(
    plan: Plan,
    world: RendezvousResult,
    node: NodePlan,
    paths: RunPaths,
    environ: Mapping[str, str],
    ranks: Sequence[Process],
) -> None:
    if plan.launcher == "deepspeed":
        from worldsize.agent.launchers.deepspeed import write_launch_files

        write_launch_files(ranks, _deepspeed_environment(plan, node, paths, ranks), paths, node)
        return
    from worldsize.agent.launchers import mpirun
    from worldsize.agent.launchers.rank_file import write_rank_files

    launcher = _environment(plan, world, paths, ranks[0], environ)
    write_rank_files(ranks, plan.launcher, launcher, paths, plan.ranks_umask)
    if plan.launcher == "mpirun" and node.node_rank == 0:
        mpirun.require_open_mpi(launcher)
        write_text(mpirun.hosts_file(paths), mpirun.hosts_lines(plan, short_names([host.name for host in world.hosts])))
        mpirun.write_starter(paths, plan.options.get("target", os.devnull))


def write_hostfile(plan: Plan, world: RendezvousResult, paths: RunPaths) -> None:
    """`NAME slots=N` for each node, as DeepSpeed and Open MPI read it. Every node writes the same, whole."""
    names = node_names([host.name for host in world.hosts])
    write_text(paths.hostfile, "".join(f"{name} slots={len(node.ranks)}\n" for name, node in zip(names, plan.nodes)))


def needs_launch_preparation(plan: Plan) -> bool:
    """Whether something must lie ready for the ranks, or for who starts them."""
    return plan.batch is None and (has_hostfile(plan) or launcher_facts(plan.launcher).trials)


def umask_of(plan: Plan) -> int | None:
    """The umask of a node's programs; None: the agent's own, for a launcher whose ranks set theirs, after each has
    opened its log."""
    return None if launcher_facts(plan.launcher).sets_umask else plan.ranks_umask


def node_processes(
    plan: Plan,
    world: RendezvousResult,
    node: NodePlan,
    paths: RunPaths,
    inherited: Mapping[str, str],
    shares: Shares = (),
) -> list[Process]:
    """What this node starts, in rank order."""
    if plan.batch is not None:
        from worldsize.agent.launchers.batch_script import batch_argv, batch_environment

        environment = batch_environment(plan, paths, inherited)
        return [Process((0,), batch_argv(plan, environment), environment, paths.rank_log(0), ())]
    ranks = rank_processes(plan, world, node, paths, inherited, shares)
    if plan.launcher == "direct":
        return list(ranks)

    return [launcher_process(plan, world, node, paths, ranks, inherited)]
