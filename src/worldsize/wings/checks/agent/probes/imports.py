"""Probe for the imports of the job's environment. It starts the job's Python as a rank starts it, and imports the
modules that the script imports.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.python_files import find_python
from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, VERDICTS, WARNING, CheckRow
from worldsize.wings.checks.agent.gpu.device import gpus_text
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number, asked_text, asked_texts
from worldsize.wings.checks.agent.readers.import_trial import FailedImport, ImportTrial, try_imports
from worldsize.wings.checks.agent.readers.rank_directory import rank_directory
from worldsize.wings.checks.agent.readers.row_texts import error_words, join_texts, safe_text

LIMIT = 55.0
"""Time limit of the program in seconds, slightly less than the limit of the probe."""

_ID, _WHAT = "python.imports", "the environment's imports"
_WITH_TORCH = frozenset(("pytorch", "deepspeed"))
_MOST_MODULES = 200
_HINT = "install it in the environment that `environment:` names, or name another one"


def probe(context: NodeContext) -> ProbeResult:
    """Start the job's Python and try the script's imports. Return the node check's row python.imports, the row
    python.mpi_backend if the job requests the MPI backend, and the facts python and torch. Return an empty ProbeResult
    if it is not known which Python the ranks execute."""
    program = asked_text(context.asked, "python")
    if program is None or context.asked.get("python_guessed") is True:
        return ProbeResult()
    directory = rank_directory(context)
    try:
        python = find_python(program, context.environ, directory)
        if python is None:
            return ProbeResult()
        trial = try_imports(python, context.environ, directory, _modules(context), _asks_torch(context), LIMIT)
    except OSError as error:
        return ProbeResult((_missing_row(context, program, error),))
    return result_of(context, trial)


def result_of(context: NodeContext, trial: ImportTrial) -> ProbeResult:
    """Return a ProbeResult for the finished `trial` of the script's imports: the row python.imports, for the MPI
    backend also python.mpi_backend, and the facts python and torch (version and backends)."""
    rows = [_imports_row(context, trial)]
    if asked_text(context.asked, "backend") == "mpi" and isinstance(trial.torch.get("mpi"), bool):
        rows.append(_mpi_row(context, trial.torch["mpi"]))
    facts: dict[str, Any] = {"python": trial.python} if trial.python else {}
    if trial.torch:
        facts["torch"] = {key: trial.torch.get(key) for key in ("version", "cuda", "nccl", "mpi", "gloo")}
    return ProbeResult(tuple(rows), facts)


def _missing_row(context: NodeContext, program: str, error: OSError) -> CheckRow:
    value = f"{safe_text(program)}: {error_words(error)}"
    hint = "name the environment on this node's disks or on a shared one: `environment:`"
    return context.row(_ID, _WHAT, value, BAD, hint)


def _imports_row(context: NodeContext, trial: ImportTrial) -> CheckRow:
    found = [_judge_import(failed) for failed in trial.failed]
    found += filter(None, (_early_end(trial), _build_complaint(context, trial.torch)))
    if not found:
        return context.row(_ID, _WHAT, _summary(trial, len(_modules(context))), OK)
    found.sort(key=lambda each: -VERDICTS.index(each[1]))
    return context.row(_ID, _WHAT, join_texts([value for value, _, _ in found]), found[0][1], found[0][2])


def _judge_import(failed: FailedImport) -> tuple[str, str, str]:
    """Return the value, verdict and hint of the row python.imports for one import that failed. An ImportError is bad.
    Another error is a warning, because it may depend on the state of the machine at this moment."""
    said = f"{failed.kind}: {failed.text}" if failed.text else failed.kind
    value = safe_text(f"import {failed.module}: {said}")
    return value, BAD if failed.is_import else WARNING, _HINT


def _early_end(trial: ImportTrial) -> tuple[str, str, str] | None:
    """Return the value, verdict and hint of the row python.imports for a Python that ended before all imports were
    tried; None if all were tried. SIGKILL is only a warning, because it comes from elsewhere, for example when memory
    is short."""
    if trial.is_over:
        return None
    if trial.code is None:
        what = f"import {trial.begun}" if trial.begun else "Python"
        return f"{what} had not ended after {LIMIT:.0f} s", UNKNOWN, "is the environment on a slow file system?"
    last = safe_text(trial.last)
    if not trial.python:
        return f"Python does not start: {last or trial.ending}", BAD, "fix the environment that `environment:` names"
    value = f"import {trial.begun} ended Python: {trial.ending}" + (f" ({last})" if last else "")
    return value, BAD if trial.code < 0 and trial.code != -signal.SIGKILL else WARNING, _HINT


def _build_complaint(context: NodeContext, torch: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the value, verdict and hint of the row python.imports for a torch that is built for CPUs in a job that has
    GPUs; None otherwise."""
    gpus = asked_number(context.asked, "gpus") or 0
    if not gpus or not torch.get("version") or torch.get("cuda") or torch.get("hip"):
        return None
    is_needed = asked_text(context.asked, "backend") == "nccl" and torch.get("has_nccl") is False
    value = f"torch {torch['version']} is built for CPUs, and the job asks for {gpus_text(gpus)} per node"
    return value, BAD if is_needed else WARNING, "install a torch that is built for CUDA or ROCm"


def _mpi_row(context: NodeContext, is_available: bool) -> CheckRow:
    what = "torch's back end for MPI"
    if is_available:
        return context.row("python.mpi_backend", what, "available", OK)
    hint = "use the back end gloo or nccl: torch has MPI only where it was built from source with it"
    return context.row("python.mpi_backend", what, "torch is built without it", BAD, hint)


def _summary(trial: ImportTrial, count: int) -> str:
    words = [f"Python {trial.python}"]
    if trial.torch.get("version"):
        words.append(f"torch {trial.torch['version']}")
    if count:
        words.append("1 module" if count == 1 else f"{count} modules")
    return safe_text(", ".join(words))


def _modules(context: NodeContext) -> Sequence[str]:
    """Return the names of the modules that the job's script imports, as the client sent them: only valid module names,
    200 at most."""
    names = asked_texts(context.asked, "modules")
    return tuple(name for name in names if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name))[:_MOST_MODULES]


def _asks_torch(context: NodeContext) -> bool:
    return asked_text(context.asked, "framework") in _WITH_TORCH or "torch" in _modules(context)
