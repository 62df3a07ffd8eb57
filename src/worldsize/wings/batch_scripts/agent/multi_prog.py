"""What each task of a step executes: the same words, or with `--multi-prog` those that a file gives it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from worldsize.common.numbers import parse_digits
from worldsize.wings.batch_scripts.agent.srun_options import SrunError, SrunOptions
from worldsize.wings.batch_scripts.agent.task_environment import StepTask

_LARGEST = 16 << 20
"""Bytes of a file of programs."""


class StepPrograms:
    """`lines` by task, from a file; without them every task executes `words`."""

    def __init__(self, words: tuple[str, ...], lines: Mapping[str, str] | None = None) -> None:
        self._words = words
        self._lines = lines

    def argv(self, task: StepTask) -> tuple[str, ...]:
        """Raises SrunError for a task that the file leaves out."""
        if self._lines is None:
            return self._words
        wanted = [line for ranks, line in self._lines.items() if _has_task(ranks, task.number)]
        line = wanted[0] if wanted else self._lines.get("*")
        if line is None:
            raise SrunError(f"srun: error: Configuration file {self._words[0]}: no program for task {task.number}")
        first = _first_task(next((ranks for ranks, text in self._lines.items() if text is line), "*"))
        try:
            words = shlex.split(line)
        except ValueError as error:
            what = "srun: error: Configuration file %s: %s in %.80s"
            raise SrunError(what % (self._words[0], error, line)) from None
        return tuple(word.replace("%t", str(task.number)).replace("%o", str(task.number - first)) for word in words)


def read_programs(asked: SrunOptions) -> StepPrograms:
    """Raises SrunError for a file that cannot be read."""
    if not asked.flag("multi-prog"):
        return StepPrograms(asked.program)
    name = asked.program[0]
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise SrunError(f"srun: error: {name}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise SrunError(f"srun: error: {name}: larger than {_LARGEST} bytes")
    text = data.decode("utf-8", "surrogateescape").replace("\\\n", " ")
    lines = {}
    for line in text.split("\n"):
        ranks, _, program = line.split("#", 1)[0].strip().partition(" ")
        if program.strip():
            lines[ranks] = program.strip()
    return StepPrograms((name,), lines)


def _has_task(ranks: str, number: int) -> bool:
    for part in ranks.split(","):
        low, dash, high = part.partition("-")
        first, last = parse_digits(low), parse_digits(high if dash else low)
        if first is not None and last is not None and first <= number <= last:
            return True
    return False


def _first_task(ranks: str) -> int:
    return parse_digits(ranks.split(",")[0].split("-")[0]) or 0
