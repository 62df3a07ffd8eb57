"""The `launcher: torchrun`: one torch.distributed.run per node starts the node's ranks. Each rank still writes its own
files, and a failure is still reported as the failure of the rank."""

from __future__ import annotations

import re
from collections.abc import Mapping

from worldsize.agent.launchers.base import Launcher, rank_failures
from worldsize.agent.launchers.launcher_failures import FailedRank
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch, Process
from worldsize.common.atomic_files import read_tail
from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.rank_variables import RendezvousResult, variable_names
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure

_BY_RANK = {"rank": "RANK", "local rank": "LOCAL_RANK"}
_BY_WORLD = {"world": "WORLD_SIZE", "nodes": "GROUP_WORLD_SIZE", "node rank": "GROUP_RANK"}
"""The variables of torchrun that change when a node is lost."""

_OWN_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
_LAST_CALL = 5
"""Seconds for which torchrun waits for more nodes, once it has enough. All nodes have been started, so those that are
missing are about to join, or lost."""

_BECOME_THE_COMMAND = 'shift 2; exec >>"$log" 2>&1; %sexec "$@"'
_FORGET = 'for said in "$WORLDSIZE_ERROR_FILE" "$TORCHELASTIC_ERROR_FILE"; do [ ! -s "$said" ] || : >"$said"; done; '
_TORCHS_PORT = 29400
"""The default port of torchrun for an endpoint without a port."""

_CAUSE = "Root Cause"
_REPORT = 16 << 20
"""The number of bytes that is read from the end of the log. It exceeds the size of the report of all failed ranks, with
which the log ends."""
_CAUSES_RANK = re.compile(r"rank\s*:\s*([0-9]{1,9})(?![0-9])")
_CAUSES_CODE = re.compile(r"exitcode\s*:\s*(-?[0-9]{1,9})(?![0-9])")


class TorchrunLauncher(Launcher):
    """The launcher that starts one torchrun per node. The torchruns perform their own rendezvous."""

    def processes(self, launch: NodeLaunch) -> list[Process]:
        plan, process = launch.plan, launch.node_process()
        environment = torchrun_environment(plan, process.environment)
        argv = torchrun_argv(plan, launch.world, launch.node, launch.paths, environment)
        return [process._replace(argv=argv, environment=environment)]

    def failures(self, end: NodeEnd) -> list[Failure]:
        """Return the failure of the rank that the log of the ended torchrun names as the root cause; if it names none,
        the failures of all ranks of this torchrun."""
        cause = root_cause(end.ended.process.log)
        return rank_failures(end, (cause.rank,), cause.code) if cause else super().failures(end)


LAUNCHER = TorchrunLauncher()


def torchrun_argv(
    plan: Plan, world: RendezvousResult, node: NodePlan, paths: RunPaths, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command line of a node's torchrun, which starts the node's ranks with the plan's command. Its
    rendezvous is on the head's port, or at the plan's endpoint, as in the guide for HPC Pack."""
    restarts = plan.options.get("max_restarts", 0)
    script = _rank_script(environment, restarts > 0, plan.spare > 0, plan.ranks_umask)
    nodes = f"{len(plan.nodes) - plan.spare}:{len(plan.nodes)}" if plan.spare else str(len(plan.nodes))
    meeting = _static_options if plan.options.get("rdzv_backend") == "static" else _c10d_options
    return (
        plan.python, "-m", "torch.distributed.run",
        f"--nnodes={nodes}", f"--nproc-per-node={len(node.ranks)}", *meeting(plan, world, node),
        f"--local-addr={_label(world, node)}", f"--max-restarts={restarts}", "--no-python",
        "/bin/sh", "-c", script, "sh", paths.errors_dir, paths.logs_dir, *plan.argv,
    )  # fmt: skip


def torchrun_environment(plan: Plan, environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment of a node's torchrun: `environment`, and, if the plan allows restarts and `environment`
    does not set it, a variable that makes the ranks use a separate store. In torchrun's store, which restarted ranks
    would otherwise share, they find the addresses of the ranks before them, and nodes whose torchruns count restarts
    differently would never find each other."""
    return {_OWN_STORE: "1", **environment} if plan.options.get("max_restarts") else environment


def _static_options(plan: Plan, world: RendezvousResult, node: NodePlan) -> tuple[str, ...]:
    head = f"--master-addr={world.address}", f"--master-port={world.port}"
    return "--rdzv-backend=static", f"--node-rank={node.node_rank}", *head


def _c10d_options(plan: Plan, world: RendezvousResult, node: NodePlan) -> tuple[str, ...]:
    """Return torchrun's options for the rendezvous backend c10d: the endpoint at which the torchruns meet, and whether
    this node is the host of that endpoint. If no node has the name in the plan's endpoint, torchrun determines the host
    itself."""
    if plan.rdzv_endpoint is None:
        host, port, hosts = world.address, world.port, [0]
    else:
        host, _, said = plan.rdzv_endpoint.partition(":")
        hosts = [number for number, each in enumerate(world.hosts) if _short_name(each.name) == _short_name(host)]
        port = parse_digits(said) or (world.port if hosts == [0] else _TORCHS_PORT)
    how = [f"is_host={int(node.node_rank == hosts[0])}"] if hosts else []
    if plan.spare:
        how.append(f"last_call_timeout={_LAST_CALL}")
    conf = (f"--rdzv-conf={','.join(how)}",) if how else ()
    return f"--rdzv-id={plan.run_id}", "--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{port}", *conf


def _short_name(name: str) -> str:
    """Return a host's name without its domain, in lower case. Return an IPv4 address unchanged."""
    return name.lower() if re.fullmatch(r"[\d.]+", name) else name.lower().partition(".")[0]


def root_cause(log: str) -> FailedRank | None:
    """Return the rank and the exit code (128+N for signal N) of the first failure that the report at the end of
    torchrun's log names as the root cause; None if the log names none."""
    _, _, text = read_tail(log, _REPORT).decode("utf-8", "replace").partition(_CAUSE)
    rank = _CAUSES_RANK.search(text)
    said = _CAUSES_CODE.search(text, rank.end()) if rank else None
    if rank is None or said is None:
        return None
    code = int(said[1])
    return FailedRank(int(rank[1]), code if code >= 0 else 128 - code)


def _rank_script(environment: Mapping[str, str], restarts: bool, elastic: bool, umask: int | None) -> str:
    """Return the shell script that torchrun starts for each rank. It sets the rank's variables of every convention in
    force, its log, error file and umask, and executes the run's command. With `restarts`, it first empties the error
    files that the rank left before its restart. With `elastic`, it also sets the variables that contain the numbers of
    ranks and nodes and the node's rank."""
    exports = _exports(_BY_RANK, environment)
    exports += ['AZUREML_PROCESS_NAME="rank_$RANK"'] if "AZUREML_PROCESS_NAME" in environment else []
    exports += _exports(_BY_WORLD, environment) if elastic else []
    return (
        'r=$(printf %05d "$RANK"); log="$2/rank-$r.log"; export WORLDSIZE_ERROR_FILE="$1/rank-$r.json" {}; {}{}'.format(
            " ".join(exports),
            _FORGET if restarts else "",
            _BECOME_THE_COMMAND % ("" if umask is None else f"umask {umask:03o}; "),
        )
    )


def _exports(sources: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Return shell assignments such as `OMPI_COMM_WORLD_RANK="$RANK"`, which set the variables of other conventions
    that occur in `environment` to the values of torchrun's own variables. `sources` contains torchrun's variable for
    each scope, such as "rank"."""
    names = ((name, source) for scope, source in sources.items() for name in variable_names(scope))
    return [f'{name}="${source}"' for name, source in names if name in environment and name != source]


def _label(world: RendezvousResult, node: NodePlan) -> str:
    """Return the value of the option `--local-addr` of a node's torchrun. torchrun numbers its nodes in the order of
    these addresses, so with the real addresses its node ranks would differ from worldsize's. Other nodes connect only
    to the first node's address. The labels of the others only determine the order: "~" sorts after every address."""
    return world.address if node.node_rank == 0 else f"~{node.node_rank:06d}"
