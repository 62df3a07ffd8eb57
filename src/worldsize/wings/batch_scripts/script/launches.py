"""The commands by which a batch script starts its ranks, and how many each starts: srun, mpirun, torchrun and plain
python. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from worldsize.common.numbers import parse_digits
from worldsize.wings.batch_scripts.agent.option_tables import read_options, srun_table
from worldsize.wings.batch_scripts.agent.step_size import Allocation, step_count
from worldsize.wings.batch_scripts.script.shell_values import UNKNOWN, ExpandedCommand, ShellVariable, expanded_commands

_PER_RANK = ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME", "SLURM_GTIDS")
_WRAPPERS = ("exec", "command", "nohup", "stdbuf", "time", "env", "timeout")
_TRIVIAL = frozenset((
    "hostname", "echo", "printf", "mkdir", "rm", "cp", "mv", "ls", "cat", "date", "env", "printenv", "nvidia-smi",
    "rocm-smi", "rsync", "tar", "sleep", "true", "ip",
))  # fmt: skip
_DIGITS = tuple("0123456789")
_SIZE = ("nodes", "ntasks", "ntasks-per-node")
_SIZE_VARIABLES = ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES")
_FLAGS = frozenset(("standalone", "no-python", "run-path"))
_TORCH_MODULES = ("torch.distributed.run", "torch.distributed.launch")


class Launch(NamedTuple):
    """A command that starts processes.

    by             "srun", "mpirun", or "" for a program that the script starts itself, once, on the first node
    nodes, tasks   their numbers; None if they are not known
    program        the words of the program, without those of the launcher if it is srun
    refusal        the reason why srun would refuse the command, in srun's words
    """

    line: int
    certain: bool
    by: str
    nodes: int | None
    tasks: int | None
    program: tuple[str, ...]
    variables: Mapping[str, ShellVariable]
    refusal: str = ""

    @property
    def may_train(self) -> bool:
        """True if the launch's processes may be ranks, not programs that only inspect the node or handle files."""
        return bool(self.program) and os.path.basename(self.program[0]) not in _TRIVIAL


class Torchrun(NamedTuple):
    """The options of a torchrun line; None for an option that it does not give, or not as a number. `standalone` means
    one node."""

    nnodes: int | None
    per_node: int | None
    node_rank: str | None
    standalone: bool
    backend: str | None


def find_launches(text: str, given: Mapping[str, str], allocation: Allocation) -> list[Launch]:
    """Return the commands of the shell script `text` that start processes (srun, mpirun, torchrun, python …), as a list
    of Launch. `given` are the variables that sbatch sets, and `allocation` the nodes that srun starts tasks on."""
    return [launch for seen in expanded_commands(text, given) for launch in _launches_of(seen, allocation)]


def torchrun_of(launch: Launch) -> Torchrun | None:
    start = _torchrun_index(launch)
    if start is None:
        return None
    said = _torchrun_options(launch.program[start + 1 :])
    return Torchrun(
        1 if "standalone" in said else parse_digits(said.get("nnodes")),
        parse_digits(said.get("nproc-per-node")),
        said.get("node-rank"),
        "standalone" in said,
        said.get("rdzv-backend"),
    )


def _torchrun_index(launch: Launch) -> int | None:
    names = [os.path.basename(word) for word in launch.program]
    return next((at for at, name in enumerate(names) if name == "torchrun" or name in _TORCH_MODULES), None)


def _torchrun_options(words: tuple[str, ...]) -> dict[str, str]:
    """Return the options of a torchrun command line by name, from the `words` after `torchrun`: those before the
    program that torchrun starts for each rank, which is `-m` and a module's name, or a script."""
    said: dict[str, str] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].lstrip("-").replace("_", "-").partition("=")
        at += 1
        if name in ("m", "module"):
            break
        if not equals and name not in _FLAGS and at < len(words):
            value = words[at]
            at += 1
        said[name] = value
    return said


def _launches_of(seen: ExpandedCommand, allocation: Allocation) -> Iterator[Launch]:
    words = _without_wrappers(seen.words)
    name = os.path.basename(words[0]) if words else ""
    if name == "srun":
        yield _srun_launch(seen, words, allocation)
    elif name in ("mpirun", "mpiexec", "orterun"):
        yield Launch(seen.line, seen.certain, "mpirun", None, _mpirun_size(words), words, seen.variables)
    elif _is_program(words, name):
        yield Launch(seen.line, seen.certain, "", 1, 1, words, seen.variables)


def _is_program(words: tuple[str, ...], name: str) -> bool:
    return name in ("torchrun", "accelerate", "deepspeed") or (name.startswith("python") and len(words) > 1)


def _without_wrappers(words: tuple[str, ...]) -> tuple[str, ...]:
    at = 0
    while at < len(words) and os.path.basename(words[at]) in _WRAPPERS:
        at += 1
        while at < len(words) and (words[at].startswith("-") or "=" in words[at] or words[at][:1] in _DIGITS):
            at += 1
    return words[at:]


def _srun_launch(seen: ExpandedCommand, words: tuple[str, ...], allocation: Allocation) -> Launch:
    read = read_options(words[1:], srun_table())
    said = {option.name: option.value for option in read.options}
    program, variables = _last_shell_command(_without_wrappers(words[1 + read.rest :]), seen.variables)
    environ = {name: variables[name].value for name in _SIZE_VARIABLES if name in variables}
    size = {name: value for name, value in said.items() if name in _SIZE}
    launch = Launch(seen.line, seen.certain, "srun", None, None, program, variables)
    if None in environ.values() or any(UNKNOWN in (value or "") for value in size.values()):
        return launch
    try:
        found = step_count(size, {name: value or "" for name, value in environ.items()}, allocation)
    except ValueError as error:
        return launch._replace(refusal=str(error))
    return launch._replace(nodes=found.nodes, tasks=found.tasks)


def _last_shell_command(
    words: tuple[str, ...], variables: Mapping[str, ShellVariable]
) -> tuple[tuple[str, ...], Mapping[str, ShellVariable]]:
    """Return the words of the last command of `bash -c "…"`, if that is the program of an srun, and the variables that
    a task finds there. Variables that differ from task to task have no known value. For other programs, return `words`
    themselves."""
    own = {**variables, **{name: ShellVariable(None) for name in _PER_RANK}}
    shell = len(words) > 2 and os.path.basename(words[0]) in ("bash", "sh") and words[1] in ("-c", "-lc", "-xc", "-ec")
    if not shell or UNKNOWN in words[2]:
        return words, own
    inner = expanded_commands(
        words[2], {name: each.value for name, each in own.items() if each.value is not None and each.exported}
    )
    if not inner:
        return words, own
    unknown = {name: each for name, each in own.items() if each.value is None}
    found = {**unknown, **inner[-1].variables}
    outside = {name: own[name] for name, each in found.items() if each.line == 0 and name in own}
    return _without_wrappers(inner[-1].words), {**found, **outside}


def _mpirun_size(words: tuple[str, ...]) -> int | None:
    said = (following for word, following in pairwise(words) if word in ("-np", "-n", "--np", "-c"))
    return parse_digits(next(said, None))
