"""Launchers, which start the ranks of a run: one row of facts for each, by its name in a plan.

Every other layer looks up here what a launcher needs or does, and compares no names. The launcher's module in the agent
decides how it starts ranks.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from types import ModuleType

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import PlanError
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths


class LauncherFacts(NamedTuple):
    """The facts about a launcher that the client and the agents need before it is loaded.

    module        the module whose `LAUNCHER` starts the ranks of a node; imported by agents that use it
    step_program  the scheduler's program that starts the ranks, by PMIx, as one more step of the job; "": none
    hostfile      whether its ranks, or its own program, find the nodes listed in a file
    own_variables prefixes of variables that it sets for each rank itself; worldsize sets none of these
    horovod_library  the library by which ranks of Horovod find each other; None: the one of Horovod's build
    by_agent      whether each rank is a process that the agent itself has started
    relay         whether its program on the head executes lines on the other nodes
    binds_ranks   whether each rank gets its share of the node's CPUs
    sets_umask    whether ranks set their umask themselves, after their logs are open; else they inherit it
    own_meeting   whether its processes find each other themselves, at the plan's `rdzv_endpoint` if there is one
    in_image      whether it can start ranks in a container image; else it would be outside, without the job's
                  environment
    own_tuning    whether it can search for the best configuration of a job itself
    options       names of a plan's options that a job may set for it
    title         its process on a node, as a preview names it: for ranks `first` to `last`, of `world` in all
    """

    module: str
    step_program: str = ""
    hostfile: bool = False
    own_variables: tuple[str, ...] = ()
    horovod_library: str | None = None
    by_agent: bool = False
    relay: bool = False
    binds_ranks: bool = False
    sets_umask: bool = False
    own_meeting: bool = False
    in_image: bool = True
    own_tuning: bool = False
    options: tuple[str, ...] = ()
    title: str = "rank {first} on node {node}"


_WINGS = "worldsize.wings."

LAUNCHERS = {
    "direct": LauncherFacts(
        "worldsize.agent.launchers.direct", by_agent=True, horovod_library="gloo", binds_ranks=True,
    ),
    "torchrun": LauncherFacts(
        "worldsize.agent.launchers.torchrun", sets_umask=True, own_meeting=True, in_image=False,
        options=("min_nodes", "max_restarts", "rdzv_backend"),
        title="torchrun on node {node}, for ranks {first} to {last}",
    ),
    "mpirun": LauncherFacts(
        "worldsize.wings.mpi.agent.mpirun", hostfile=True, own_variables=("PMIX_", "PMI_"), relay=True,
        binds_ranks=True, sets_umask=True,
    ),
    "srun": LauncherFacts(
        "worldsize.wings.mpi.agent.slurm_srun", step_program="srun", hostfile=True,
        own_variables=("SLURM", "PMIX_", "PMI_"), relay=True, binds_ranks=True, sets_umask=True,
    ),
    "deepspeed": LauncherFacts("worldsize.wings.deepspeed.agent.launcher", hostfile=True, own_tuning=True),
    "ray": LauncherFacts(
        "worldsize.wings.frameworks.agent.ray_launcher", in_image=False, title="Ray on node {node}, of {world}",
    ),
    "batch": LauncherFacts(
        "worldsize.wings.batch_scripts.agent.launcher",
        title="the batch script, once, on node {node}: its srun starts {world} ranks",
    ),
}  # fmt: skip


_added: dict[str, LauncherFacts] = {}
"""Launchers of other packages that this process has found."""


def launcher_facts(name: str) -> LauncherFacts:
    """Return the LauncherFacts of the launcher `name`, worldsize's own or another package's. Raise PlanError if it is
    not known, or cannot be used."""
    facts = LAUNCHERS.get(name) or _added.get(name)
    if facts is None:
        from worldsize.plan.external_launchers import find_installed_module

        module = find_installed_module(name)
        if module is None:
            hint = f"these are known: {', '.join(LAUNCHERS)}"
            raise PlanError(f"there is no launcher {name!r:.40}", "distribution.launcher", hint)
        facts = _add(name, module)
    return facts


def require_launcher(name: str) -> None:
    """Check that this installation can use the launcher `name`. Raise PlanError as `launcher_facts` does, and
    ConfigError if the launcher belongs to a wing that is not installed."""
    module = launcher_facts(name).module
    if module.startswith(_WINGS):
        from worldsize.registry import load_module

        load_module(module[len("worldsize.") :], f"the launcher {name}")


def external_launchers(plan: Plan) -> list[str]:
    """Return the names of other packages' launchers that the plan may use, as its own or instead of it, each once."""
    named = dict.fromkeys((plan.launcher, str(plan.options.get("otherwise", plan.launcher))))
    return [name for name in named if name not in LAUNCHERS]


def load_launchers(plan: Plan, paths: RunPaths) -> None:
    """Load the plan's launchers of other packages from the run's directory, for this process and its forks. Raise
    PlanError if a launcher's file does not exist, belongs to another user, or is no launcher."""
    for name in external_launchers(plan):
        from worldsize.plan.external_launchers import file_name, load_file

        file = os.path.join(paths.root, file_name(name))
        if not os.path.lexists(file):
            raise PlanError(f"there is no launcher {name!r:.40}", file)
        _add(name, load_file(name, file))


def _add(name: str, module: ModuleType) -> LauncherFacts:
    from worldsize.plan.external_launchers import launcher_error, module_problem

    problem = module_problem(module, LauncherFacts)
    if problem:
        raise launcher_error(name, problem)
    facts: LauncherFacts = module.FACTS
    _added[name] = facts._replace(module=module.__name__)
    return _added[name]
