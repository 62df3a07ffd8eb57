"""A batch script as a job of our own words: what each rank executes, and what must happen before. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.spec.batchcheck import script_launches
from worldsize.spec.batchlaunch import Launch, torchrun_of
from worldsize.spec.batchscript import BatchScript
from worldsize.spec.batchsize import Asked, array_of
from worldsize.spec.batchslurm import slurm_keys
from worldsize.spec.distribution import Distribution, PlainDistribution, PyTorchDistribution
from worldsize.spec.job import Job, Resources
from worldsize.spec.shellscan import UNKNOWN
from worldsize.spec.shelltext import assigned_name, plain_text, source_text
from worldsize.spec.shellwords import Command, Word, commands

_RANK_VARIABLES = frozenset((
    "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
))  # fmt: skip
_ONLY_LOOKING = frozenset((
    "echo", "printf", "hostname", "date", "pwd", "env", "nvidia-smi", "scontrol", "sleep", "set",
))  # fmt: skip
_SHELL_TEXT = ("-c", "-lc", "-ec", "-xc")
_LAUNCHERS = ("srun", "mpirun", "mpiexec", "torchrun", "accelerate", "deepspeed")
_OF_SLURM = re.compile(r"\bSLURM_|\b(scontrol|srun|squeue)\b")
_USED = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_TASK_ID = re.compile(r"\$(?:SLURM_ARRAY_TASK_ID\b|\{SLURM_ARRAY_TASK_ID\})")


class Imported(NamedTuple):
    """The job, and what was left out of it, each with its line and the reason."""

    job: Job
    left_out: tuple[str, ...]


class _Lines(NamedTuple):
    """The script's commands before the ranks, sorted by what becomes of them."""

    modules: tuple[str, ...]
    setup: tuple[str, ...]
    variables: Mapping[str, str]
    directory: str
    left_out: tuple[str, ...]


def import_script(script: BatchScript, asked: Asked, source: str) -> Imported:
    """The job whose ranks are those of the script's main step: its last command that starts the most processes."""
    launch = _main(script_launches(script, asked))
    lines = _sorted(commands(script.text) if script.is_shell else [], launch)
    slurm, dropped = slurm_keys(script, asked, _ranks_per_task(launch))
    command = _command(script, launch)
    array = array_of(script, source)
    job = Job(
        command=lines.directory + (_TASK_ID.sub("${{inputs.array_task}}", command) if array else command),
        code=".",
        display_name=script.value("job-name") or os.path.splitext(os.path.basename(source))[0],
        environment_variables=lines.variables,
        distribution=_distribution(script, launch, asked),
        resources=Resources(launch.nodes or asked.nodes if launch and launch.by == "srun" else asked.nodes),
        inputs={"array_task": array.indices[0]} if array else {},
        matrix={"array_task": tuple(array.indices)} if array else {},
        at_once=array.at_once if array else None,
        modules=lines.modules,
        setup=lines.setup,
        slurm=slurm,
        source=source,
    )
    notes = [*dropped, *lines.left_out]
    if launch is None:
        notes.append("no command was found that starts ranks: say it in command")
    return Imported(job, tuple(notes))


def _main(found: Sequence[Launch]) -> Launch | None:
    trains = [launch for launch in found if launch.trains] or found
    return max(trains, key=lambda launch: (launch.tasks or 1, launch.line), default=None)


def _ranks_per_task(launch: Launch | None) -> int:
    torchrun = torchrun_of(launch) if launch else None
    return torchrun.per_node or 1 if torchrun else 1


def _distribution(script: BatchScript, launch: Launch | None, asked: Asked) -> Distribution:
    torchrun = torchrun_of(launch) if launch else None
    if torchrun:
        return PyTorchDistribution(torchrun.per_node or asked.gpus or 1, "torchrun")
    per_node = max(asked.tasks)
    if launch and launch.tasks and launch.nodes:
        per_node = -(-launch.tasks // launch.nodes)
    if launch and not launch.by:
        per_node = 1
    return PyTorchDistribution(per_node) if "MASTER_ADDR" in script.text else PlainDistribution(per_node)


def _command(script: BatchScript, launch: Launch | None) -> str:
    """The words of the ranks' program, as the script writes them; never nothing."""
    return _program(script, launch) or "true" if launch else "true"


def _program(script: BatchScript, launch: Launch) -> str:
    written = _written(script, launch)
    last = plain_text(written[-1]) if written else None
    if last is not None and any(plain_text(word) in _SHELL_TEXT for word in written):
        return last.strip()
    torchrun = torchrun_of(launch)
    program = torchrun.program if torchrun else launch.program
    words = [source_text(word) for word in written[-len(program) :]] if program else []
    if len(words) < len(program):
        words = [shlex.quote(word.replace(UNKNOWN, "")) for word in program]
    return " ".join(["python", *words] if torchrun else words)


def _written(script: BatchScript, launch: Launch) -> tuple[Word, ...]:
    """The words of the command that starts the ranks, before expansion."""
    there = [command.words for command in commands(script.text) if command.line == launch.line]
    starting = [words for words in there if any(plain_text(word) in _LAUNCHERS for word in words)]
    return (starting or there or [()])[0]


def _sorted(found: Sequence[Command], launch: Launch | None) -> _Lines:
    modules: list[str] = []
    setup: list[str] = []
    variables: dict[str, str] = {}
    directory = ""
    left_out: list[str] = []
    slurms: set[str] = set()
    for command in found:
        text = " ".join(source_text(word) for word in command.words)
        first = plain_text(command.words[0]) or ""
        if (launch and command.line == launch.line) or first in _ONLY_LOOKING:
            continue
        if launch and command.line > launch.line:
            left_out += [_note(command, text, "after the ranks")]
        elif not command.certain:
            left_out += [_note(command, text, "only under a condition")]
        elif first in ("module", "ml"):
            names = [plain_text(word) or "" for word in command.words[1:]]
            loads = names[1:] if names[:1] in (["load"], ["add"]) else names if first == "ml" else []
            modules += [name for name in loads if name and not name.startswith("-")]
        elif first == "cd":
            directory += "" if "SLURM_SUBMIT_DIR" in text else text + " && "
        elif first in _LAUNCHERS:
            left_out += [_note(command, text, "another step")]
        else:
            _keep(command, text, setup, variables, left_out, slurms)
    return _Lines(tuple(modules), tuple(setup), variables, directory, tuple(left_out))


def _keep(
    command: Command, text: str, setup: list[str], variables: dict[str, str], left_out: list[str], slurms: set[str]
) -> None:
    """Assignments become variables of every rank; what is worked out, and any other line, is executed before. What is
    worked out from Slurm is left out: `slurms` are the names of such variables."""
    words = command.words[1:] if plain_text(command.words[0]) == "export" else command.words
    if not all(assigned_name(word) for word in words):
        setup.append(text)
        return
    for word in words:
        name, source, plain = assigned_name(word), source_text(word), plain_text(word)
        if name in _RANK_VARIABLES:
            left_out.append(_note(command, name, "every rank gets the right value"))
        elif plain is not None:
            variables[name] = plain[len(name) + 1 :]
        elif _OF_SLURM.search(source) or not slurms.isdisjoint(_USED.findall(source)):
            slurms.add(name)
            left_out.append(_note(command, source, "worked out from what Slurm says, which every rank knows"))
        else:
            setup.append("export " + source)


def _note(command: Command, text: str, why: str) -> str:
    return "line %d: %s (%s)" % (command.line, text if len(text) <= 80 else text[:79] + "…", why)
