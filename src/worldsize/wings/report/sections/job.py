"""The sections about the request: the resolved job, a short form of the plan, the environment, and what was submitted
to the compute."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import partial

from worldsize.cli.console import count_text, duration_text
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import size_text
from worldsize.logs.reader import file_size
from worldsize.plan.array import array_of
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.secrets import mask
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import pairs_of, read_text, shorten, value_text

_TEXT = 256 << 10
_DIFF = 1 << 20
_VARIABLES = 1000
_PACKAGES = 2000
_WORDS = 4000
_KNOWN = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|RCCL|ROCR|ROCM|HIP|HSA|GPU|UCX|UCC|FI|OMPI|PMIX?|I_MPI|MPI|MPICH|PSM2|GLOO|RDMAV|SHARP"
    r"|OMP|GOMP|KMP|MKL|OPENBLAS|NUMEXPR|TORCH|TORCHINDUCTOR|TORCHELASTIC|PYTORCH|TRITON|TF|XLA|JAX|NEURON|HF|TRANSFORMERS"
    r"|ACCELERATE|DS|DEEPSPEED|MEGATRON|HOROVOD|WANDB|MLFLOW|WORLDSIZE|SLURM|SBATCH|SRUN|CCP|AZUREML|CONDA|MALLOC)_\w+"
    r"|PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHON\w+|VIRTUAL_ENV|LOADEDMODULES|LANG|LC_ALL|TZ|TMPDIR"
)
"""Names of environment variables that change how a job runs. All other variables of a user's shell are private."""


def job(facts: RunFacts) -> list[Child]:
    """Render the text of the run's resolved job file, folded, for the report page; nothing if there is none."""
    return _document(facts, facts.paths.job)


def submission(facts: RunFacts) -> list[Child]:
    """Render the text that was submitted to the compute, folded, for the report page. For an element, that is the
    submission of its array."""
    place = array_of(facts.paths)
    return _document(facts, RunPaths(place[0]).submission if place else facts.paths.submission)


def _document(facts: RunFacts, path: str, most: int = _TEXT) -> list[Child]:
    try:
        text = read_text(path, most, facts.mask)
    except FileNotFoundError:
        return []
    return [facts.pictures.details(f"{os.path.basename(path)}: {size_text(file_size(path))}", _pre(facts, text))]


def _pre(facts: RunFacts, text: str) -> Child:
    return facts.pictures.element("pre", text)


def plan(facts: RunFacts) -> list[Child]:
    """Render the plan of the run for the report page: its command, the ranks, GPUs and threads of each node, and the
    job's variables. Nothing if there is no readable plan."""
    if facts.plan is None:
        return []
    found = [facts.pictures.key_values([pair for pair in _plan_pairs(facts, facts.plan) if pair[1]])]
    variables = facts.plan.environment
    return [*found, *_variables(facts, "variables of the job", variables if isinstance(variables, dict) else {})]


def _plan_pairs(facts: RunFacts, found: Plan) -> Iterator[tuple[str, str]]:
    yield "command", shorten(facts.mask(shlex.join(map(str, found.argv[:1000]))), _WORDS)
    yield "started by", value_text(found.launcher)
    yield "framework", "" if found.framework == "none" else value_text(found.framework)
    yield "conventions of variables", value_text(", ".join(map(str, found.conventions)))
    yield "ranks of each node", _counts_text(len(node.ranks) for node in found.nodes)
    yield "GPUs of each node", value_text(found.gpus)
    yield "CPUs", "bound" if found.bind != "none" else "not bound"
    yield "threads of each rank", value_text(found.threads)
    yield "time limit", duration_text(found.timeout) if found.timeout else ""
    yield "time to end after TERM", duration_text(found.grace)
    yield "data parallel", value_text(found.data_parallel)


def _counts_text(counts: Iterable[int]) -> str:
    """Return the numbers of ranks of all nodes as text: "2" if they are equal, or "4, 4, 2" if nodes differ. At most 32
    are listed."""
    found = list(counts)
    return str(found[0]) if len(set(found)) == 1 else ", ".join(map(str, found[:32]))


def environment(facts: RunFacts) -> list[Child]:
    """Render, for the report page, the Python version, the packages and the code's commit and changes of a run, and the
    environment variables of the user who submitted it."""
    record = facts.record
    told = record.get("python")
    python = told if isinstance(told, dict) else {}
    pairs = [
        *pairs_of(python, {"version": "Python", "executable": "its program"}),
        *pairs_of(record, {"platform": "submitter's platform"}),
        *pairs_of(record.get("git"), {"commit": "git commit", "branch": "git branch"}),
        *pairs_of(record.get("code"), {"directory": "code from", "digest": "digest of the code"}),
    ]
    found = [facts.pictures.key_values([(name, facts.mask(text)) for name, text in pairs])] if pairs else []
    built = read_object(facts.paths.environment)
    rows = [*_versions(python.get("packages")), *_built(built.get("conda")), *_built(built.get("pip"))]
    if rows:
        shown = facts.pictures.table(("package", "version"), rows[:_PACKAGES])
        found.append(facts.pictures.details(count_text(len(rows), "package"), shown))
    found += _document(facts, facts.paths.diff, _DIFF)
    return [*found, *_submitters_variables(facts)]


def _submitters_variables(facts: RunFacts) -> list[Child]:
    """Render, for the report page, the environment variables of the user who submitted the run that training libraries
    and cluster systems read. Other variables are private, and only their number is shown, unless `every_variable` is
    set."""
    told = facts.record.get("environment")
    everything = told if isinstance(told, dict) else {}
    shown = {name: value for name, value in everything.items() if facts.every_variable or _KNOWN.fullmatch(str(name))}
    left = len(everything) - len(shown)
    remark = f"{count_text(left, 'other variable')} of the submitter left out (worldsize report --environment)."
    return [
        *_variables(facts, "submitter's variables", shown),
        *([facts.pictures.element("p", remark, class_="muted")] if left else []),
    ]


def _versions(packages: Any) -> list[list[str]]:
    found = packages if isinstance(packages, dict) else {}
    return [[value_text(name), value_text(version)] for name, version in found.items()]


def _built(rows: Any) -> list[list[str]]:
    """Return the packages of a built environment as [name, version] pairs. `rows` is a list of packages from the
    environment's lock."""
    found = rows if isinstance(rows, list) else []
    return [[value_text(row.get("name")), value_text(row.get("version"))] for row in found if isinstance(row, dict)]


def _variables(facts: RunFacts, title: str, variables: dict[str, Any]) -> list[Child]:
    """Render a folded table of environment variables with the given title; nothing if there are none. A variable's
    value is masked if the value, or the variable's name, marks it as a secret."""
    if not variables:
        return []
    show = partial(_variable, facts)
    rows = [show(name, value) for name, value in sorted(variables.items())[:_VARIABLES]]
    return [facts.pictures.details(f"{len(variables)} {title}", facts.pictures.table(("name", "value"), rows))]


def _variable(facts: RunFacts, name: str, value: Any) -> list[str]:
    return [value_text(name), shorten(facts.mask(mask(name, "" if value is None else str(value))))]
