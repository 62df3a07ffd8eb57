"""`launcher: torchrun`: one torch.distributed.run per node starts the node's ranks; the ranks still write their own
files, and a failure is still the rank's own."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from worldsize.plan.environ import World
from worldsize.plan.launch import NodePlan, Plan
from worldsize.plan.paths import RunPaths

_BY_RANK = ("WORLDSIZE_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_BY_LOCAL_RANK = ("WORLDSIZE_LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK")
_BECOME_THE_COMMAND = 'shift 2; exec "$@" >>"$log" 2>&1'
_CAUSE = r"(?s)Root Cause.*?rank\s*:\s*(\d+).*?exitcode\s*:\s*(-?\d+)"


class Cause(NamedTuple):
    """The rank that torchrun saw fail first, and its exit code, 128+N for signal N."""

    rank: int
    code: int


def torchrun_argv(
    plan: Plan, world: World, node: NodePlan, paths: RunPaths, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """c10d rendezvous on the head's port, as HPC Pack's guide starts it."""
    return (
        "python", "-m", "torch.distributed.run",
        "--nnodes=%d" % len(plan.nodes), "--nproc-per-node=%d" % len(node.ranks),
        "--rdzv-id=%s" % plan.run_id, "--rdzv-backend=c10d",
        "--rdzv-endpoint=%s:%d" % (world.address, world.port),
        "--rdzv-conf=is_host=%d" % (node.node_rank == 0), "--local-addr=%s" % _label(world, node),
        "--max-restarts=0", "--no-python",
        "/bin/sh", "-c", _rank_script(environment), "sh", paths.errors_dir, paths.logs_dir, *plan.argv,
    )  # fmt: skip


def root_cause(log: str) -> Cause | None:
    """What torchrun's own log says of the first failure; None where it says nothing."""
    try:
        with open(log, encoding="utf-8", errors="replace") as file:
            found = re.search(_CAUSE, file.read())
    except OSError:
        return None
    if found is None:
        return None
    code = int(found[2])
    return Cause(int(found[1]), code if code >= 0 else 128 - code)


def _rank_script(environment: Mapping[str, str]) -> str:
    """What torchrun starts for each rank: it names the rank in every convention in force, gives it its own log and
    error file, and becomes the command."""
    exports = ['%s="$RANK"' % name for name in _BY_RANK if name in environment]
    exports += ['%s="$LOCAL_RANK"' % name for name in _BY_LOCAL_RANK if name in environment]
    exports += ['AZUREML_PROCESS_NAME="rank_$RANK"'] if "AZUREML_PROCESS_NAME" in environment else []
    return 'r=$(printf %%05d "$RANK"); log="$2/rank-$r.log"; export WORLDSIZE_ERROR_FILE="$1/rank-$r.json" %s; %s' % (
        " ".join(exports),
        _BECOME_THE_COMMAND,
    )


def _label(world: World, node: NodePlan) -> str:
    """torchrun numbers its nodes by sorting their addresses, so that its node ranks and ours would differ. Only the
    first one's is ever connected to; the others' stand for their place: "~" sorts after every address."""
    return world.address if node.node_rank == 0 else "~%06d" % node.node_rank
