"""Which task of a script's last step failed first, as the real srun tells it. Pure.

Texts are those of Slurm's src/srun/libsrun and src/api/step_launch.c, 20.11 to 26.05: srun says of each task that did
not end with 0 how it ended, in that order, and ends the step of the first one ("Terminating StepId=7.0").
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple

_TASK = re.compile(r"(?:\S+: )?srun: error: (\S+): tasks? ([0-9]{1,9})[-,0-9]*: (.+)$")
_CODE = re.compile(r"Exited with exit code ([0-9]{1,9})$")
_ENDS = re.compile(r"(?:\S+: )?srun: (?:launch/slurm: _?\w+: )?Terminating (?:StepId=|job step )\S+$")


class EndedTask(NamedTuple):
    """The lowest of the tasks that ended so on a node. `code`: its exit code, 128+N for signal N."""

    task: int
    host: str
    code: int


def first_failed_task(lines: Sequence[str], code: int) -> EndedTask | None:
    """The first task of the step that gave a script its exit code; None where the lines do not tell of that step."""
    ends = [index for index, line in enumerate(lines) if _ENDS.match(line)]
    told = [(index, task) for index, line in enumerate(lines) for task in (_task(line),) if task]
    if not told:
        return None
    before = [place for place, (index, _) in enumerate(told) if ends and index < ends[-1]]
    first = before[-1] if before else 0
    step = [task for _, task in told[first:]]
    return step[0] if code in [task.code for task in step] else None


def ended_tasks(lines: Sequence[str]) -> list[EndedTask]:
    """All that the lines tell of, in their order."""
    return [task for line in lines for task in (_task(line),) if task]


def _task(line: str) -> EndedTask | None:
    match = _TASK.match(line)
    if match is None:
        return None
    exited = _CODE.match(match[3])
    code = int(exited[1]) if exited else _code_of_signal(match[3])
    return EndedTask(int(match[2]), match[1], code) if code else None


def _code_of_signal(words: str) -> int:
    """ "Killed", "Segmentation fault (core dumped)": as strsignal says it."""
    words = words.replace(" (core dumped)", "")
    return next((128 + number for number in signal.valid_signals() if signal.strsignal(number) == words), 0)
