"""Renderer of the batch script, which is plain, readable and complete. All functions are pure.

`--dry-run` prints the script that worldsize submits, byte for byte. If worldsize submits it, its run directory exists
already. If a user submits it by hand, the script creates the directory first from the files embedded at its end.
"""

from __future__ import annotations

import json
import os
import shlex
import zlib
from binascii import b2a_base64
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.slurm.options import Option, directive
from worldsize.compute.slurm.script_checks import (
    FIRST_NODE_CHECK,
    UNSET_JOB_VARIABLES,
    check_arguments,
    is_checked_at_once,
    node_check_lines,
    runs_root,
    umask_line,
)
from worldsize.compute.slurm.script_trust import TRUST_FUNCTIONS
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.plan.setup_script import ATTEMPT_MARK, setup_lines

_LINE = 76
_BASH = "#!/bin/bash"
_RANKS = "One agent per node starts that node's ranks."
_OWN = "An agent on the first node runs your script, whose srun starts the ranks."

_ATTEMPT = (
    "",
    "ATTEMPT=${SLURM_RESTART_COUNT:-0}   # Slurm counts how often it started the job again",
    f'[ "$ATTEMPT" = 0 ] || echo "{ATTEMPT_MARK}$ATTEMPT"',
    "# It also does that if a node fails before it could report the end.",
    "LAST=$RUN/attempt-$((ATTEMPT - 1))/exit/node-0000.json",
    '[ ! -e "$LAST" ] || case $(tail -c 9 "$LAST") in *\'"code":0}\') exit 0 ;; esac',
    'if [ -e "$RUN/result.json" ] || [ -e "$RUN/cancel.json" ]; then',
    '    echo "worldsize: $ID has ended, and is not started again" >&2',
    "    exit 1",
    "fi",
)
"""Lines that set the attempt's number, and that do not start a run again after it has ended."""

_REMOVE_ACCESS_LISTS = (
    "import os, sys; "
    '[os.removexattr(sys.argv[1], each) for each in os.listxattr(sys.argv[1]) if each.startswith("system.posix_acl")]'
)
"""Python code that removes a directory's access lists. New files in a directory inherit its access list, regardless of
the umask."""

_RECHECK_OWNER = 'ours || { echo "worldsize: no run directory of yours: $RUN" >&2; exit 1; }'
"""Line that checks the owner of the run directory again after the setup lines, which take some time."""


_NO_OUTPUT = (
    'if [ -e "$RUN/batch.log" ] && [ ! -e "$RUN/plan.json" ]; then   # Slurm made it: the run is not seen here',
    "    kill -53 $$   # so the job ends as it does where Slurm could not open its output",
    "fi",
)
"""Lines that end the job if Slurm has created the run directory for its output. Slurm 24.11 creates the missing
directories of a job's output; 22.05 ends the job with this signal."""


class BatchScriptParts(NamedTuple):
    """The parts that a batch script is rendered from.

    python   the interpreter that runs the agents
    code     the directory that a script submitted by hand runs in, or None
    links    the directory in which a script submitted by hand registers its run: the runs of the home
    files    embedded files: name in the run directory and content, as `pack` returns it
    signal   seconds before the limit at which the job requests a signal
    trusted  directories on the path of the runs that others may change, from `script_trust.trusted_components`
    makes_runs  whether the directory of runs, which is the home's, is created if it is missing
    """

    plan: Plan
    paths: RunPaths
    options: Sequence[Option]
    python: str
    code: str | None
    links: str
    files: Mapping[str, bytes]
    signal: int | None = None
    trusted: str = ""
    makes_runs: bool = True


def render(script: BatchScriptParts) -> str:
    plan = script.plan
    parts = [
        _BASH,
        *map(directive, script.options),
        "",
        f"# {_comment_text(plan.name)}: {len(plan.nodes)} node(s), world size {plan.world_size}. "
        + (_OWN if plan.batch else _RANKS),
        *_path_lines(script),
        umask_line(plan),
        *_NO_OUTPUT,
        *(_array_check_lines(plan) if plan.array else _manual_submission_lines(script)),
        *_ATTEMPT,
        *node_check_lines(plan),
        *_setup_lines(plan),
        *(_start_script_lines() if plan.batch else _start_lines(plan)),
        *([] if plan.array else _embedded_files(script.files)),
    ]
    return "\n".join(parts) + "\n"


def _setup_lines(plan: Plan) -> list[str]:
    if not plan.setup:
        return []
    lines = setup_lines(plan.setup, secrets=plan_secret_values(plan), umask=plan.ranks_umask)
    return ["", *lines, _RECHECK_OWNER, umask_line(plan)]


def _comment_text(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _path_lines(script: BatchScriptParts) -> list[str]:
    paths = script.paths
    runs = paths.root[: -len(paths.run_id) - 1]
    python = shlex.quote(script.python)
    return [
        f"RUNS={shlex.quote(runs)}",
        "ID={}".format(f"{script.plan.array.run_id}_$SLURM_ARRAY_TASK_ID" if script.plan.array else paths.run_id),
        f"PYTHON={python}",
        f"NAMED=({' '.join(map(shlex.quote, script.plan.named))})",
        "RUN=$RUNS/$ID",
        *_runs_directory_lines(script),
    ]


def _array_check_lines(plan: Plan) -> list[str]:
    """Return the batch script's lines that check the run directory of an array element, which must exist already, since
    elements have no script of their own. If the array was removed, another user may have created a directory of its
    name.

    The agent links the code in the run directory from the array's code. If the plan has setup lines, which need the
    code earlier, the returned lines do so.
    """
    lines = [
        'ours "$RUNS" && ours && [ -e "$RUN/plan.json" ] ||',
        '    { echo "worldsize: no run directory of yours: $RUN" >&2; exit 1; }',
    ]
    return [*lines, '[ -e "$RUN/code" ] || cp -al "$RUNS/code" "$RUN/" || exit 1'] if plan.setup else lines


def _manual_submission_lines(script: BatchScriptParts) -> list[str]:
    """Return the batch script's lines for a script that a user submits by hand. They create a run directory, from the
    files embedded in the script, if there is none or if it belongs to another job, since the same script can be
    submitted many times. The id of such a run ends in the job's number.

    A directory of another user never counts as a run of this user, regardless of its content: job numbers can be
    guessed, and other users may write to some runs_dir.
    """
    links = shlex.quote(script.links)
    lines = [
        'mine() { ln -s "$SLURM_JOB_ID" "$RUN/job" 2>/dev/null || [ "$(readlink "$RUN/job")" = "$SLURM_JOB_ID" ]; }',
        "",
        'ready() { [ -e "$RUN/plan.json" ] && ours; }',
        "",
        "FIRST=$ID",
        "if ! ready || ! mine; then   # submitted by hand: a run of its own",
        *([] if is_checked_at_once(script.plan) else ["    look_here"]),
        "    ID=$FIRST-$SLURM_JOB_ID",
        "    RUN=$RUNS/$ID",
        "fi",
        *(_code_check_lines(script.code) if script.code is not None else ()),
        'if [ "$ID" != "$FIRST" ] && ! ready; then',
        '    part() { sed -n "\\|^# begin $1\\$|,/^# end/{/^#/d;p}" "$0" | base64 -d | gzip -d; }',
        (
            f'    ours || {{ mkdir -m 700 "$RUN" && "$PYTHON" -I -S -c {shlex.quote(_REMOVE_ACCESS_LISTS)} "$RUN" && '
            f'chmod {0o777 & ~script.plan.umask:03o} "$RUN"; }} || exit 1'
        ),
        f'    mkdir -p "$RUN/code" "$RUN/outputs" "$RUN/user_logs" "$RUN/inrank" {links} || exit 1',
        *(['    mkdir -p "$RUN/inrank/real"'] if script.plan.batch else []),
        *[f'    mkdir -p "$RUN/{folder}" || exit 1' for folder in _package_folders(script.files)],
        '    put() { ( umask 077; part "$1" >"$RUN/$1" ) || exit; }',
        *[f"    put {name}" for name in script.files if name != "plan.json"],
        *(['    chmod u+x "$RUN/inrank/real/srun"'] if script.plan.batch else []),
    ]
    if script.code is not None:
        lines.append(f'    ln -s {shlex.quote(script.code)}/* "$RUN/code/"; rm -f "$RUN/code/outputs" "$RUN/code/logs"')
    return [
        *lines,
        '    ln -s ../outputs "$RUN/code/outputs"; ln -s ../user_logs "$RUN/code/logs"',
        f"    HANDLE={shlex.quote(_handle_json(script))}",
        '    sed "s|@JOB|$SLURM_JOB_ID|; s|@RUN|$ID|" <<<"$HANDLE" >"$RUN/handle.json"',
        '    part plan.json | sed "s|$FIRST|$ID|g" >"$RUN/plan.part" && mv "$RUN/plan.part" "$RUN/plan.json" || exit 1',
        f'    mine; [ -e {links}/"$ID" ] || ln -s "$RUN" {links}/',
        '    echo "worldsize logs -f $ID"',
        "fi",
    ]


def _package_folders(names: Iterable[str]) -> list[str]:
    """Return the folders, among the embedded files `names`, of the packages that ranks load (below
    inrank/worldsize_inrank), sorted, without those that contain another of the folders."""
    folders = {os.path.dirname(name) for name in names if name.startswith("inrank/worldsize_inrank/")}
    return sorted(each for each in folders if not any(other.startswith(each + "/") for other in folders))


def _code_check_lines(code: str) -> list[str]:
    """Return the batch script's lines that check at each attempt, which may run on another node, that no other user can
    replace the directory `code`. They apply only to a run that was submitted by hand."""
    code = shlex.quote(code)
    return [
        'if [ "$ID" != "$FIRST" ]; then   # what it executes is not copied',
        f'    reliable {code} || {{ echo "worldsize: not reliable here:" {code} >&2; exit 1; }}',
        f"    NAMED+=({code})",
        "fi",
    ]


def _runs_directory_lines(script: BatchScriptParts) -> list[str]:
    """Return the batch script's lines that check the directory of runs (`RUNS`). A directory that is missing when the
    job starts is not created again, since other users could do that too and then replace its content. Only the
    worldsize home's directory of runs is created, unless another user created one first."""
    array, above = script.plan.array is not None, runs_root(script.plan)
    return [
        "OWN=$EUID",
        f"TRUSTED={shlex.quote(script.trusted)}",
        "LOOK='",
        *TRUST_FUNCTIONS,
        "'",
        'eval "$LOOK"',
        *(
            ['[ -d "$RUNS" ] || { usable "$RUNS" && ( umask 077; mkdir -p "$RUNS" ); }']
            if script.makes_runs and not array
            else []
        ),
        f"[ -d {above} ] && reliable {above} ||",
        '    { echo "worldsize: no directory of runs that is yours: $RUNS" >&2; exit 1; }',
        "has_python || PYTHON=python3",
        *FIRST_NODE_CHECK,
        *(["look_here"] if is_checked_at_once(script.plan) else []),
    ]


def _handle_json(script: BatchScriptParts) -> str:
    """Return the JSON text of the handle for a run that is submitted by hand, with the marks @JOB and @RUN for its ids.
    It equals the handle of the compute's `submit`, but lacks the job's name, which sbatch options may have changed."""
    value = {"type": "slurm", "job": "@JOB", "run_id": "@RUN", "signal": script.signal, "python": script.python}
    return json.dumps(value, separators=(",", ":"))


def _node_loss_options(plan: Plan) -> tuple[str, ...]:
    """Return srun's options that keep a step running after the loss of a node, if the run can lose a node and still
    continue; none for other runs."""
    return ("--no-kill", "--kill-on-bad-exit=0") if plan.spare else ()


def _start_lines(plan: Plan) -> list[str]:
    """Return the last lines of the batch script, which replace the script's shell with srun, which starts one agent per
    node. So srun's exit code and signals are the job's, and srun is never an orphan.

    The logs are not srun's --output. Otherwise a node that does not see the run directory would start nothing, and srun
    would still wait for the other nodes ("task 1 launch failed: Slurmd could not connect IO").
    """
    nodes = len(plan.nodes)
    return [
        "",
        UNSET_JOB_VARIABLES,
        'AGENT=\'exec "$PYTHON" -I -S "$RUN/agent.pyz" "$RUN" --node-rank-var SLURM_NODEID \'',
        "AGENT+='--attempt \"$ATTEMPT\" --starter $PPID --launcher '$$   # srun, which waits for all agents",
        (
            f"exec srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --kill-on-bad-exit=1 --mem=0 "
            "--cpu-bind=none \\"
        ),
        '    --mpi=none --job-name="$ID" --input=none \\',
        *(f"    {shlex.quote(word)} \\" for word in (*_node_loss_options(plan), *plan.step)),
        f'    sh -c "$LOOK$THERE$AGENT" {check_arguments(plan)}',
    ]


def _start_script_lines() -> list[str]:
    """Return the last lines of the batch script if the job runs a user's own script: they replace the shell with an
    agent on this first node, which runs the user's script. So the job's signals and exit code are the agent's. The
    environment is not changed, since the srun in the user's script needs it."""
    return ["", 'exec "$PYTHON" -I -S "$RUN/agent.pyz" "$RUN" --node-rank 0 --attempt "$ATTEMPT"']


def _embedded_files(files: Mapping[str, bytes]) -> list[str]:
    lines = ["", "# What travels: each part is base64 of gzip."]
    for name, packed in files.items():
        text = b2a_base64(packed, newline=False).decode()
        lines += [f"# begin {name}", *(text[at : at + _LINE] for at in range(0, len(text), _LINE)), "# end"]
    return lines


def pack(data: bytes) -> bytes:
    """Return `data` compressed in gzip's format, without a time, so that equal content gives equal text."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()
