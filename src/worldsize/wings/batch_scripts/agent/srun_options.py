"""The words of an srun on virtual nodes: what they request, and which of them cannot be honoured. Each task executes
the same words, or with `--multi-prog` the words that a file lists for it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.wings.batch_scripts.agent.option_tables import NO_OPTION, read_options, srun_table

USAGE_CODE = 255
_FROM_ENVIRONMENT = {
    "kill-on-bad-exit": "SLURM_KILL_BAD_EXIT", "label": "SLURM_LABELIO", "wait": "SLURM_WAIT",
    "input": "SLURM_STDINMODE", "output": "SLURM_STDOUTMODE", "error": "SLURM_STDERRMODE",
    "open-mode": "SLURM_OPEN_MODE", "distribution": "SLURM_DISTRIBUTION", "export": "SRUN_EXPORT_ENV",
    "overlap": "SLURM_OVERLAP", "overcommit": "SLURM_OVERCOMMIT", "cpus-per-task": "SRUN_CPUS_PER_TASK",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
}  # fmt: skip
"""Variables from which srun takes options that its words do not give. Only those that scripts set are included."""

_HONOURED = frozenset((
    "nodes", "ntasks", "ntasks-per-node", "nodelist", "exclude", "relative", "distribution", "chdir", "export", "label",
    "output", "error", "input", "open-mode", "kill-on-bad-exit", "wait", "time", "multi-prog", "overlap", "overcommit",
    "oversubscribe", "exclusive", "exact", "cpus-per-task", "gpus", "gpus-per-node", "gpus-per-task", "gres", "quiet",
    "unbuffered", "pty", "job-name", "verbose", "immediate", "jobid", "disable-status", "preserve-env", "no-kill",
))  # fmt: skip
_REFUSED = {
    "het-group": "heterogeneous steps cannot be run here",
    "container": "containers cannot be run here",
    "no-allocate": "there is no slurmd to start tasks without an allocation",
    "bcast": "programs are not copied: every virtual node sees the same files",
}
_LARGEST = 16 << 20
"""The maximum size of a file of programs, in bytes."""

_PMI = ("pmix", "pmi2", "pmi1", "openmpi")


class SrunOptions(NamedTuple):
    """The parsed words of an srun.

    options   srun's own options by long name, including those of the environment
    given     the options of the words alone, which decide the number of tasks
    program   the words to execute
    remarks   what is not honoured, as text for users, each by a name under which it is printed once
    """

    options: Mapping[str, str | None]
    given: Mapping[str, str | None]
    program: tuple[str, ...]
    remarks: Mapping[str, str]

    def flag(self, name: str) -> bool:
        return name in self.options and self.options[name] not in ("0", "off", "no")


class SrunError(Exception):
    """An error of srun: its `text`, in srun's format, and its exit `code`."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def parse_srun_words(words: Sequence[str], environ: Mapping[str, str]) -> SrunOptions:
    """Parse `words`, the arguments of an srun on virtual nodes, and the options that variables of `environ` set. Return
    the SrunOptions. Raise SrunError for words that srun would refuse, and for requests that virtual nodes cannot
    fulfil."""
    read = read_options(words, srun_table())
    for word, fault, _ in read.unknown:
        text = {NO_OPTION: "unrecognized option '%s'", "has no value": "option '%s' requires an argument"}
        raise SrunError("srun: {}".format(text.get(fault, "option '%s' doesn't allow an argument") % word), USAGE_CODE)
    said = {option.name: option.value for option in read.options}
    options = {name: environ[source] for name, source in _FROM_ENVIRONMENT.items() if environ.get(source)}
    asked = SrunOptions({**options, **said}, said, tuple(words[read.rest :]), _remarks(said))
    for name, why in _REFUSED.items():
        if name in said:
            raise SrunError(f"srun: error: worldsize: --{name}: {why}")
    if ":" in words[read.rest :]:
        raise SrunError(f"srun: error: worldsize: {_REFUSED['het-group']}")
    if not asked.program and not {"help", "usage", "version"} & set(said):
        raise SrunError("srun: fatal: No command given to execute.")
    return asked


def _remarks(said: Mapping[str, str | None]) -> dict[str, str]:
    found = {}
    mpi = (said.get("mpi") or "none").split("/")[-1]
    if mpi.startswith(_PMI):
        found["mpi"] = f"--mpi={mpi}: there is no PMI on virtual nodes; start MPI programs with mpirun"
    idle = sorted(name for name in said if name not in _HONOURED and name not in _REFUSED and name != "mpi")
    if idle:
        names = ", ".join("--" + name for name in idle)
        found[names] = f"without effect on virtual nodes: {names}"
    return found


def task_argv(words: tuple[str, ...], programs: Mapping[str, str] | None, task: int) -> tuple[str, ...]:
    """Return the command of the task number `task` of a step. `programs` are those of the `--multi-prog` file that
    `words` names; None: every task executes `words` themselves. Raise SrunError if the file has no program for the
    task, or an invalid one."""
    if programs is None:
        return words
    numbers = next((numbers for numbers in programs if _has_task(numbers, task)), "*")
    try:
        found = shlex.split(programs[numbers])
    except KeyError:
        raise SrunError(f"srun: error: Configuration file {words[0]}: no program for task {task}") from None
    except ValueError as error:
        what = "srun: error: Configuration file %s: %s in %.80s"
        raise SrunError(what % (words[0], error, programs[numbers])) from None
    offset = task - (parse_digits(numbers.split(",")[0].split("-")[0]) or 0)
    return tuple(word.replace("%t", str(task)).replace("%o", str(offset)) for word in found)


def read_programs(asked: SrunOptions) -> Mapping[str, str] | None:
    """Read the file of an srun with `--multi-prog` and return its command lines by the numbers of their tasks, such as
    `0-3`; None without that option. Raise SrunError if the file cannot be read."""
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
