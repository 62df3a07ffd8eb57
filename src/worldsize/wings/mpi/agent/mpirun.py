"""The launcher that runs Open MPI's mpirun on the head, without ssh: the agent of each other node executes the commands
that mpirun would start there.

mpirun calls a program for each other host, with the host's name and a line for its shell. worldsize's program passes
both to the head's agent, which sends the line over the control channel (`launcher_relay`) to a process that has waited
for it there since the launch. Ranks write their own files: a process that mpirun starts becomes the rank by a file that
the node's agent has written.

mpirun knows hosts, not nodes: it has no virtual nodes, and daemons that share a host disturb each other.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.launcher_failures import FailedRank
from worldsize.agent.launchers.rank_file import to_shell_word
from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch
from worldsize.agent.posix.processes import find_program
from worldsize.common.atomic_files import read_tail, write_text
from worldsize.plan.node_names import short_names
from worldsize.plan.plan import Plan
from worldsize.plan.rank_environment import scrub
from worldsize.plan.rank_variables import RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.mpi.agent.head_launcher import HeadLauncher, log_text

STARTER = "worldsize-start"
"""The name of the program that mpirun calls for each other host. It is found on mpirun's own PATH, because mpirun's
option cannot contain a path with blanks."""

_START = """#!/bin/sh
node=$1
shift
printf '%%s\\n' "$*" >%s/"$node"
printf '%%s\\n' "$node" >%s
"""
_RANK_FILE = '"$WORLDSIZE_RUN_DIR/$0/rank-$OMPI_COMM_WORLD_RANK"'
_BECOME_THE_RANK = f'until [ -e {_RANK_FILE} ]; do sleep 0.02; done; . {_RANK_FILE}; exec "$@"'
"""A shell script that waits for the rank's file, reads it, and executes the rank's command. The path of the file is
that on the rank's own node: the agent of another node of this host may not have written it yet. The script sets no
variable of its own, because a variable of the job may have any name."""

_WORLDSIZE_VARIABLES = (
    "WORLDSIZE_RUN_ID",
    "WORLDSIZE_ATTEMPT",
    "WORLDSIZE_RUN_DIR",
    "WORLDSIZE_NODE_RANK",
    "WORLDSIZE_HOSTFILE",
)
_AS_ROOT = (
    "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM",
)  # fmt: skip
_QUICKER = {"HWLOC_COMPONENTS": "-gl"}
"""A setting without which hwloc looks for ten X displays."""

_REMOTE = {
    4: ("--mca", "plm", "rsh", "--mca", "plm_rsh_agent", STARTER, "--mca", "plm_rsh_no_tree_spawn", "1",
        "--mca", "plm_rsh_num_concurrent"),
    5: ("--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", STARTER, "--prtemca", "plm_ssh_no_tree_spawn", "1",
        "--prtemca", "plm_ssh_num_concurrent"),
}  # fmt: skip
"""The options for starting daemons on other hosts, by generation. The head starts all of them, and all at once: if
fewer are started at a time, some are refused, because daemons stay attached."""

_AT_ONCE = 128
"""The number of daemons that Open MPI starts at once by default."""

_YIELD = "OMPI_MCA_mpi_yield_when_idle"
_STACK = {"OMPI_MCA_mpi_abort_print_stack": "1"}
"""A setting that makes a rank that aborts print a stack to its own log, because Open MPI 4 sometimes loses its message
about the abort ("Data unpack would read past end of buffer in file … show_help.c")."""

# The messages that mpirun of either generation writes.
_ABORTED = (
    r"MPI_ABORT was invoked on rank ([0-9]{1,9}) in communicator MPI_COMM_WORLD(?:\s+Proc:[^\n]*)?\s+"
    r".{0,500}?rrorcode:? (-?[0-9]{1,9})\b"
)
_EXITED = r"Process name:\s*\[\S*,([0-9]{1,9})\]\s+Exit code:\s+([0-9]{1,9})\b"
_SIGNALLED = (
    r"process\s+rank\s+([0-9]{1,9})\s+with\s+PID\s+[0-9]+\s+on\s+node\s+\S+\s+exited\s+on\s+"
    r"signal\s+([0-9]{1,9})\b"
)
_ABORTS = b"(ompi_mpi_abort+"
_LAST = 65536
_UNFINISHED = r"due to process\s+rank ([0-9]{1,9}) with PID [0-9]+ on\s+node \S+\s+exiting improperly"


class MpirunLauncher(HeadLauncher):
    """The launcher for Open MPI's mpirun."""

    def is_available(self, plan: Plan, environ: Mapping[str, str]) -> bool:
        path = plan.environment.get("PATH") or ":".join((*plan.path, environ.get("PATH", "/usr/bin:/bin")))
        return _find_generation({"PATH": path}) is not None

    def argv(self, launch: NodeLaunch, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Return the command line of mpirun on the head, which places the ranks of all nodes as in the plan. A job sets
        other options by variables OMPI_MCA_…."""
        plan, directory = launch.plan, launch.paths.launch_dir
        return (
            "mpirun", "-np", str(plan.world_size), "--hostfile", _hosts_file(directory), "--map-by", "slot",
            "--bind-to", "none", "--leave-session-attached", *_REMOTE[_find_generation(environment) or 4],
            str(max(_AT_ONCE, len(plan.nodes))), "/bin/sh", "-c", _BECOME_THE_RANK,
            os.path.relpath(directory, launch.paths.root), *plan.argv,
        )  # fmt: skip

    def environment(self, launch: NodeLaunch, rank: Mapping[str, str]) -> Mapping[str, str]:
        return mpirun_environment(launch.plan, launch.paths, rank, _is_crowded(launch.plan, launch.world))

    def prepare(self, launch: NodeLaunch) -> Mapping[str, str]:
        """Prepare the node for mpirun as HeadLauncher does, and return the environment that ranks inherit. Also create
        an empty executable at the path where mpirun's daemons look for the program that the head calls, because they
        refuse to start without one. A node that shares the head's directory has the head's own."""
        environ = super().prepare(launch)
        if launch.node.node_rank:
            try:
                os.close(os.open(_starter(launch.paths.launch_dir), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700))
            except FileExistsError:
                pass
        return environ

    def prepare_head(self, launch: NodeLaunch, environment: Mapping[str, str]) -> None:
        require_open_mpi(environment)
        hosts = short_names([host.name for host in launch.world.hosts])
        directory = launch.paths.launch_dir
        write_text(_hosts_file(directory), hosts_lines(launch.plan, hosts))
        starter = _START % (to_shell_word(directory), launch.plan.options.get("target", os.devnull))
        write_text(_starter(directory) + ".new", starter)
        os.chmod(_starter(directory) + ".new", 0o700)
        os.replace(_starter(directory) + ".new", _starter(directory))

    def first_cause(self, end: NodeEnd) -> FailedRank | None:
        """Return the rank that mpirun's log names as the first to fail, else the first rank whose own log ends with the
        stack of its MPI_Abort; None if there is neither."""
        code = end.ended.code
        cause = first_cause(end.ended.process.log, code)
        if cause is not None:
            return cause
        ranks = [rank.rank for node in end.plan.nodes for rank in node.ranks]
        aborted = (rank for rank in ranks if _ABORTS in read_tail(end.paths.rank_log(rank), _LAST))
        return next((FailedRank(rank, code) for rank in aborted), None)


LAUNCHER = MpirunLauncher()


def open_mpi_generation(program: str) -> int | None:
    """Return the generation of Open MPI to which the mpirun at the path `program` belongs: 4 (and before), or 5; None
    for another MPI's mpirun."""
    real = os.path.realpath(program)
    name, _, of = os.path.basename(real).partition(".")
    if name not in ("mpirun", "mpiexec", "orterun", "prterun") or of not in ("", "openmpi"):  # mpirun.openmpi: Debian's
        return None
    beside = os.listdir(os.path.dirname(real))
    return 5 if "prterun" in beside else 4 if "orted" in beside else None


def require_open_mpi(environment: Mapping[str, str]) -> None:
    """Raise OSError if the mpirun on the PATH of `environment` is not Open MPI's. A missing mpirun is no error here,
    and fails when it is started."""
    try:
        program = find_program("mpirun", environment)
    except OSError:
        return
    if open_mpi_generation(program) is None:
        raise OSError(errno.ENOEXEC, "is not Open MPI (use launcher: direct, or put Open MPI first on PATH)")


def _find_generation(environment: Mapping[str, str]) -> int | None:
    try:
        return open_mpi_generation(find_program("mpirun", environment))
    except OSError:
        return None


def _hosts_file(directory: str) -> str:
    return os.path.join(directory, "hosts")


def _starter(directory: str) -> str:
    return os.path.join(directory, STARTER)


def hosts_lines(plan: Plan, hosts: Sequence[str]) -> str:
    """Return the content of mpirun's host file: a line for each host, with the number of ranks of all its nodes.
    `hosts` are the host names of the nodes. Raise OSError if the nodes of a host are not adjacent in the order of
    nodes."""
    lines = []
    slots = 0
    for node, name in zip(plan.nodes, hosts):
        slots += len(node.ranks)
        if hosts[node.node_rank + 1 : node.node_rank + 2] != [name]:
            lines.append(f"{name} slots={slots}\n")
            slots = 0
    if len(lines) > len(set(hosts)):
        raise OSError(errno.EINVAL, "places ranks by hosts, and nodes that share one are not neighbours here")
    return "".join(lines)


def mpirun_environment(plan: Plan, paths: RunPaths, rank: Mapping[str, str], crowded: bool = False) -> dict[str, str]:
    """Return mpirun's environment, based on `rank`, the environment of one of the node's ranks. Variables of other
    launchers or of a scheduler are removed, because mpirun would obey them. Variables of the job and of its environment
    are kept under any name, because the files of ranks contain only the differences from this environment. With
    `crowded`, there are more ranks than cores, and ranks yield while they wait."""
    own = {name: rank[name] for name in (*_WORLDSIZE_VARIABLES, *plan.activated) if name in rank}
    environment = {
        **_QUICKER,
        **_STACK,
        **({_YIELD: "1"} if crowded else {}),
        **scrub(rank),
        **own,
        **plan.environment,
    }
    environment["PATH"] = f"{paths.launch_dir}:{rank['PATH']}"
    if os.getuid() == 0:
        environment.update(dict.fromkeys(_AS_ROOT, "1"))
    return environment


def _is_crowded(plan: Plan, world: RendezvousResult) -> bool:
    ranks: dict[str, int] = {}
    for node, host in zip(plan.nodes, world.hosts):
        ranks[host.name] = ranks.get(host.name, 0) + len(node.ranks)
    return any(ranks[host.name] > host.cores > 0 for host in world.hosts)


def first_cause(log: str, code: int) -> FailedRank | None:
    """Return the rank that failed first, with its exit code, according to the log file of an mpirun that ended with
    `code`; None if the log names none."""
    text = log_text(log)
    for pattern, base in ((_ABORTED, 0), (_EXITED, 0), (_SIGNALLED, 128)):
        found = re.search(pattern, text, re.DOTALL)
        if found is not None:
            return FailedRank(int(found[1]), (base + int(found[2])) & 255)
    found = re.search(_UNFINISHED, text)
    return FailedRank(int(found[1]), code) if found else None
