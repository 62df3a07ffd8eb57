"""Commands that run before the ranks: modules to load, shell lines of the job and of the compute. All functions are
pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from worldsize.common.atomic_files import read_if_possible

FAILED_MARK = "worldsize: setup failed"
ATTEMPT_MARK = "worldsize: attempt "
"""Text that a batch script writes first to its log when it is started again."""
STEP_SUFFIX = ".step"
"""Suffix of the file that names the line being executed, after the name of the log of setup."""
NO_RUN_EXIT_CODE = 73
"""Exit code, instead of an agent's, of a node that does not see the run directory, or may not write there."""
REPLACEABLE_EXIT_CODE = 74
"""Exit code, instead of an agent's, of a node on which another user could replace a program that the ranks execute."""
MODULE_LINES = (
    "type module >/dev/null 2>&1 || for init in /etc/profile.d/{lmod,z00_lmod,modules}.sh; do",
    '    [ -r "$init" ] && . "$init"',
    "done",
)
"""Lines of bash that define `module` as in a login shell, if it is not defined yet."""


_LINES = "WORLDSIZE_LINES"
_EVALUATE = f'eval "unset {_LINES}\n${_LINES}"'


def bash_command(lines: Sequence[str], words: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """Return the command line of a bash that executes `lines`, with `words` as its arguments, and a mapping with the
    environment variable from which the bash reads the lines. They are not in the command line itself, since all users
    of the machine can read that and lines may set secrets."""
    return ["bash", "-c", _EVALUATE, "bash", *words], {_LINES: "\n".join(lines)}


def module_line(module: str) -> str:
    return f"module load {shlex.quote(module)}"


def setup_lines(
    commands: Sequence[str], log: str = "batch.log", secrets: Collection[str] = (), umask: int | None = None
) -> list[str]:
    """Return lines of bash that execute the setup lines `commands` in `$RUN/code`. They end at the first command that
    fails, and print it without the values `secrets`. The commands have the `umask`; None: the shell's. A file next to
    the `log` names the current command, and is removed once all have been executed."""
    from worldsize.trust.secrets import mask_text, mask_values

    shown = [mask_text(mask_values(each, secrets)).split("\n")[0] for each in commands]
    at = shlex.quote(log + STEP_SUFFIX)
    return [
        'cd "$RUN/code" || exit 1',
        *MODULE_LINES,
        f'at_step() {{ STEP=$1; printf \'%s\\n\' "$STEP" >|"$RUN/"{at} || :; }}',
        *([] if umask is None else [f"at_step ''; umask {umask:03o}"]),  # the file keeps the shell's umask
        f"trap 'code=$?; echo \"{FAILED_MARK} with code $code: $STEP\" >&2; exit $code' ERR",
        *(line for what, each in zip(shown, commands) for line in (f"at_step {shlex.quote(what)}", each)),
        "trap - ERR",
        f'rm -f "$RUN/"{at}',
    ]


def failed_step(line: str) -> str:
    """Return the report of a failed setup line ("setup failed with code …") that a `line` of the setup log contains,
    possibly after the last output of the setup line; "" if it contains none."""
    _, found, what = line.partition(FAILED_MARK)
    return found[len("worldsize: ") :] + what


def current_step(log: str) -> str:
    """Return the setup line of the job that is being executed now, or was when its shell ended, from the file next to
    its `log`; "" if all have been executed."""
    return read_if_possible(log + STEP_SUFFIX).decode("utf-8", "replace").strip()
