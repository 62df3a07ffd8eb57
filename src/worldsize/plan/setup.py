"""What runs before the ranks: modules to load, shell lines of the job and of the compute. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

FAILED = "worldsize: setup failed"
ATTEMPT = "worldsize: attempt "
"""What a batch script says in its log before all else when it is started again."""
NO_RUN = 73
"""The exit code, in place of an agent's, of a node that does not see the run directory, or may not write there."""
MODULE = (
    "type module >/dev/null 2>&1 || for init in /etc/profile.d/{lmod,z00_lmod,modules}.sh; do",
    '    [ -r "$init" ] && . "$init"',
    "done",
)
"""Lines of bash that define `module` as a login shell would have it, where nothing has done so."""


def module_line(module: str) -> str:
    return "module load %s" % shlex.quote(module)


def setup_lines(commands: Sequence[str]) -> list[str]:
    """Lines of bash that execute `commands` in `$RUN/code`, and end it at the first that fails, saying which it was."""
    return [
        'cd "$RUN/code" || exit 1',
        *MODULE,
        "trap 'code=$?; echo \"%s with code $code: $STEP\" >&2; exit $code' ERR" % FAILED,
        *(line for command in commands for line in ("STEP=%s" % shlex.quote(command.split("\n")[0]), command)),
        "trap - ERR",
    ]
