"""The words of an srun on virtual nodes: what it is to start, and what of it cannot be honoured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.batch_scripts.agent.option_tables import NO_OPTION, read_options, srun_table

USAGE_CODE = 255
_FROM_ENVIRONMENT = {
    "kill-on-bad-exit": "SLURM_KILL_BAD_EXIT", "label": "SLURM_LABELIO", "wait": "SLURM_WAIT",
    "input": "SLURM_STDINMODE", "output": "SLURM_STDOUTMODE", "error": "SLURM_STDERRMODE",
    "open-mode": "SLURM_OPEN_MODE", "distribution": "SLURM_DISTRIBUTION", "export": "SRUN_EXPORT_ENV",
    "overlap": "SLURM_OVERLAP", "overcommit": "SLURM_OVERCOMMIT", "cpus-per-task": "SRUN_CPUS_PER_TASK",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
}  # fmt: skip
"""As srun takes what it is not told; those that scripts set."""

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
_PMI = ("pmix", "pmi2", "pmi1", "openmpi")


class SrunOptions(NamedTuple):
    """options   srun's own by long name, the environment's included
    given     those of its words alone: they decide how many tasks there are
    program   the words to execute
    remarks   what is not honoured, for people; each with a name under which it is said once
    """

    options: Mapping[str, str | None]
    given: Mapping[str, str | None]
    program: tuple[str, ...]
    remarks: Mapping[str, str]

    def flag(self, name: str) -> bool:
        return name in self.options and self.options[name] not in ("0", "off", "no")


class SrunError(Exception):
    """`text` in srun's manner; `code` is what it exits with."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


def parse_srun_words(words: Sequence[str], environ: Mapping[str, str]) -> SrunOptions:
    """Raises SrunError for what srun would refuse, and for what cannot be done here at all."""
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
