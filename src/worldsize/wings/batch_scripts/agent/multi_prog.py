"""What each task of a step executes: the same words, or with `--multi-prog` those that a file gives it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from worldsize.common.numbers import parse_digits
from worldsize.wings.batch_scripts.agent.srun_options import SrunError, SrunOptions
from worldsize.wings.batch_scripts.agent.task_environment import StepTask

_LARGEST = 16 << 20
"""Bytes of a file of programs."""


def task_argv(words: tuple[str, ...], programs: Mapping[str, str] | None, task: StepTask) -> tuple[str, ...]:
    """`programs`: from the file that is the only word; None: every task executes the words. Raises SrunError for a task
    that the file leaves out."""
    if programs is None:
        return words
    numbers = next((numbers for numbers in programs if _has_task(numbers, task.number)), "*")
    try:
        found = shlex.split(programs[numbers])
    except KeyError:
        raise SrunError(f"srun: error: Configuration file {words[0]}: no program for task {task.number}") from None
    except ValueError as error:
        what = "srun: error: Configuration file %s: %s in %.80s"
        raise SrunError(what % (words[0], error, programs[numbers])) from None
    offset = task.number - (parse_digits(numbers.split(",")[0].split("-")[0]) or 0)
    return tuple(word.replace("%t", str(task.number)).replace("%o", str(offset)) for word in found)


def read_programs(asked: SrunOptions) -> Mapping[str, str] | None:
    """The programs of a step with `--multi-prog`, by the numbers of their tasks; None without it. Raises SrunError for
    a file that cannot be read."""
    if not asked.flag("multi-prog"):
        return None
    name = asked.program[0]
    try:
        with open(name, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise SrunError(f"srun: error: {name}: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise SrunError(f"srun: error: {name}: larger than {_LARGEST} bytes")
    lines = {}
    for line in data.decode("utf-8", "surrogateescape").replace("\\\n", " ").split("\n"):
        ranks, _, program = line.split("#", 1)[0].strip().partition(" ")
        if program.strip():
            lines[ranks] = program.strip()
    return lines


def _has_task(ranks: str, number: int) -> bool:
    for part in ranks.split(","):
        low, dash, high = part.partition("-")
        first, last = parse_digits(low), parse_digits(high if dash else low)
        if first is not None and last is not None and first <= number <= last:
            return True
    return False
