"""`launcher: srun`: the start of MPI ranks by Slurm's own srun with PMIx, as another step of the job, next to the
agents' step."""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.agent.launchers.launcher_failures import FailedRank
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.mpi.agent.head_launcher import HeadLauncher, log_text
from worldsize.wings.mpi.agent.mpirun import mpirun_environment

_NEEDED = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CLUSTER_NAME", "SLURM_WORKING_CLUSTER")
"""All variables of the job that srun gets. It would take other variables of the agents' own step as its options."""

_BECOME_THE_RANK = 'until [ -e "$0/rank-$SLURM_PROCID" ]; do sleep 0.02; done; . "$0/rank-$SLURM_PROCID"; exec "$@"'
"""A shell script that waits for the rank's file, which the node's agent may not have written yet, reads it, and
executes the rank's command."""

_EXITED = r"(?m)^srun: error: \S+: tasks? ([0-9]{1,9})\b[^:\n]*: Exited with exit code ([0-9]{1,9})\b"
_SIGNALLED = (
    r"(?m)^srun: error: \S+: tasks? ([0-9]{1,9})\b[^:\n]*: (Killed|Segmentation fault|Aborted|Bus error|Floating point)"
)
_SIGNALS = {"Killed": 9, "Segmentation fault": 11, "Aborted": 6, "Bus error": 7, "Floating point": 8}


class SrunLauncher(HeadLauncher):
    """The launcher for Slurm's srun, which starts the ranks of all nodes itself, by the files that their agents have
    written."""

    def argv(self, launch: NodeLaunch, environment: Mapping[str, str]) -> tuple[str, ...]:
        plan = launch.plan
        return (
            "srun", "--overlap", "--mpi=pmix", f"--nodes={len(plan.nodes)}", f"--ntasks={plan.world_size}",
            f"--ntasks-per-node={len(plan.nodes[0].ranks)}", "--distribution=block", "--kill-on-bad-exit=1", "--mem=0",
            "--cpu-bind=none", "--input=none", "/bin/sh", "-c", _BECOME_THE_RANK, launch.paths.launch_dir, *plan.argv,
        )  # fmt: skip

    def environment(self, launch: NodeLaunch, rank: Mapping[str, str]) -> Mapping[str, str]:
        return srun_environment(launch.plan, launch.paths, rank, launch.environ)

    def first_cause(self, end: NodeEnd) -> FailedRank | None:
        return first_cause(end.ended.process.log)


LAUNCHER = SrunLauncher()


def srun_environment(
    plan: Plan, paths: RunPaths, rank: Mapping[str, str], inherited: Mapping[str, str]
) -> dict[str, str]:
    job = {name: inherited[name] for name in _NEEDED if name in inherited}
    return {**mpirun_environment(plan, paths, rank), **job}


def first_cause(log: str) -> FailedRank | None:
    """Return the rank (srun's task) that failed first, with its exit code, according to the log file of srun; None if
    the log names none."""
    text = log_text(log)
    found = [match for match in (re.search(_EXITED, text), re.search(_SIGNALLED, text)) if match]
    if not found:
        return None
    first = min(found, key=lambda match: match.start())
    code = 128 + _SIGNALS[first[2]] if first[2] in _SIGNALS else int(first[2])
    return FailedRank(int(first[1]), code)
