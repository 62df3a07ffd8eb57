"""Lines of a batch script that let each node check the run directory before anything in it is used. All functions are
pure."""

from __future__ import annotations

from worldsize.plan.plan import Plan
from worldsize.plan.setup_script import NO_RUN_EXIT_CODE, REPLACEABLE_EXIT_CODE

_NODE_CHECK = (
    "PYTHON=$0 RUN=$1 ATTEMPT=$2 OWN=$3 TRUSTED=$4 ABOVE=$5",
    "shift 5",
    'ALL=; all_with_python "$ABOVE" "$@" && ALL=1 || reliable "$ABOVE" &&',
    '    [ -d "$ABOVE" ] && { [ "$ABOVE" = "${RUN%/*}" ] || ours "${RUN%/*}"; } && ours ||',
    f"    exit {NO_RUN_EXIT_CODE}   # this node does not see the run directory, or another user could replace it",
)
"""Lines that run on each node before anything in the run directory is used. On a node that does not see the shared file
system, the same name is another directory."""

FIRST_NODE_CHECK = (
    "look_here() {   # before this node uses any of it outside a step",
    (
        '    all_with_python "${NAMED[@]}" || { require_usable "${NAMED[@]}" && choose_python "${NAMED[@]}"; } '
        f"|| exit {REPLACEABLE_EXIT_CODE}"
    ),
    "}",
)
"""Function of the shell that checks the first node. If the script starts only the step with the agents, each node runs
its own check, and this node is not checked twice."""

_SAME_EVERYWHERE = (
    "same_on_all_nodes() {   # no other user can make another directory of that name on another node",
    "    local at STICKY=",
    '    usable "$1" && [ "$NEAR" = "$1" ] || return',
    "    while read -r at; do",
    '        [ -n "$at" ] || continue',
    '        case $(stat -f -c %T "$at" 2>/dev/null) in',
    "            nfs* | lustre | gpfs | ceph* | fhgfs | beegfs | cifs | smb* | afs | panfs) ;;",
    "            *) return 1 ;;",
    "        esac",
    '    done <<<"$STICKY"',
    "}",
)

UNSET_JOB_VARIABLES = (
    "unset SLURM_EXPORT_ENV SLURM_CPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_CPU_BIND SLURM_DISTRIBUTION"
    "   # not of this step"
)


def umask_line(plan: Plan) -> str:
    """Return the batch script's line that sets the plan's umask. With the user's own umask, other users might be able
    to write to files that decide what is started."""
    return f"umask {plan.umask:03o}"


def check_arguments(plan: Plan) -> str:
    return f'"$PYTHON" "$RUN" "$ATTEMPT" "$OWN" "$TRUSTED" {runs_root(plan)} "${{NAMED[@]}}"'


def node_check_lines(plan: Plan) -> list[str]:
    """Return the batch script's lines that let each node check the run directory before anything in it is used. They
    define the check as the shell variable THERE, for the step that starts the agents.

    If setup lines change what the node's shell finds, or if the steps are the user's own, that would be too late. Then
    the lines also run the check at once, in a step of one task per node, unless the paths are known to be the same on
    all nodes.
    """
    before = [
        *_SAME_EVERYWHERE,
        "ASK=1",
        "if [[ $0 == */slurm_script ]]; then   # on the first node of a job of its own",
        "    ASK=",
        f'    for at in {runs_root(plan)} "${{NAMED[@]}}"; do',
        '        [ "$SLURM_JOB_NUM_NODES" = 1 ] || same_on_all_nodes "$at" || ASK=1',
        "    done",
        "fi",
        'if [ -n "$ASK" ]; then   # each node looks at its own before anything of them is in force',
        f"    ( {UNSET_JOB_VARIABLES}",
        '    srun --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \\',
        '        --kill-on-bad-exit=1 --mem=0 --cpu-bind=none --mpi=none --job-name="$ID" --input=none \\',
        f'        sh -c "$LOOK$THERE" {check_arguments(plan)} ) ||',
        "        exit",
        "fi",
    ]
    return [
        "",
        '[ -d "$RUN/attempt-$ATTEMPT/logs" ] || mkdir -p "$RUN/attempt-$ATTEMPT/logs"',
        "THERE='",
        *_NODE_CHECK,
        umask_line(plan),
        'LOG=$RUN/attempt-$ATTEMPT/logs/agent-$(printf %04d "$SLURM_NODEID").log',
        f'true >>"$LOG" || exit {NO_RUN_EXIT_CODE}   # this node may not write there',
        'exec >>"$LOG" 2>&1',
        f'[ -n "$ALL" ] || {{ require_usable "$@" && choose_python "$@"; }} || exit {REPLACEABLE_EXIT_CODE}',
        "'",
        *(before if is_checked_at_once(plan) else []),
    ]


def runs_root(plan: Plan) -> str:
    return '"${RUNS%/*}"' if plan.array else '"$RUNS"'


def is_checked_at_once(plan: Plan) -> bool:
    return plan.batch is not None or bool(plan.setup)
