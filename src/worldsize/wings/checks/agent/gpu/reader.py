"""Reader of a node's GPUs: by NVML, otherwise by nvidia-smi.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.common.named_tuple import TypeAlias
from worldsize.wings.checks.agent.gpu.device import GpuReport
from worldsize.wings.checks.agent.gpu.drivers import has_nvidia, other_devices
from worldsize.wings.checks.agent.gpu.nvml import load_nvml, read_nvml
from worldsize.wings.checks.agent.gpu.xml_report import parse_xml
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.program_output import ProgramEnd, run_program
from worldsize.wings.checks.agent.readers.asked_values import asked_number

LIMIT = 15.0
"""The time limit in seconds for all calls of nvidia-smi. It is less than that of a probe, so that the row can name the
cause."""

NOT_FOUND = "nvidia-smi was not found"
LATE = "nvidia-smi did not answer in time"
CUT_OFF = "nvidia-smi ended in the middle of its answer"

Run: TypeAlias = "Callable[[Sequence[str], Mapping[str, str], str, float, int], ProgramEnd]"

_MOST_BYTES = 4 << 20
_LIBRARIES = ("LD_LIBRARY_PATH", "LD_PRELOAD")
_PLACES = (("usr", "bin", "nvidia-smi"), ("usr", "lib", "wsl", "lib", "nvidia-smi"))


def is_looked_at(context: NodeContext) -> bool:
    """Return whether the node check examines the GPUs of this node: the job requests some, or does not state how many
    and there are some. Virtual GPUs do not count."""
    if context.environ.get("WORLDSIZE_VIRTUAL_GPUS"):
        return False
    asked = asked_number(context.asked, "gpus")
    return asked > 0 if asked is not None else has_nvidia(context) or other_devices(context) == "a GPU under WSL"


def read_gpus(context: NodeContext, run: Run = run_program) -> GpuReport:
    """Read the GPUs of this node by NVML, otherwise by nvidia-smi, and return the GpuReport; a report with a failure,
    and without GPUs, if none can be read. `run` executes a program."""
    if has_nvidia(context):
        nvml = load_nvml()
        found = read_nvml(nvml) if nvml is not None else None
        if found is not None:
            return found
    program = find_nvidia_smi(context)
    if program is None:
        return GpuReport(failure=NOT_FOUND)
    return _read_program(program, context.environ, run)


def find_nvidia_smi(context: NodeContext) -> str | None:
    """Return the path of nvidia-smi from the ranks' PATH, otherwise from the places where drivers install it; None if
    it is missing. A program that PATH finds in the working directory is ignored, because that directory contains the
    job's files."""
    try:
        found = find_program("nvidia-smi", context.environ)
    except OSError:
        found = ""
    places = (found, *(context.path(*names) for names in _PLACES))
    return next((path for path in places if os.path.isabs(path) and os.access(path, os.X_OK)), None)


def ask(
    program: str, words: Sequence[str], environ: Mapping[str, str], run: Run, deadline: float
) -> tuple[str, int | None, str]:
    """Run nvidia-smi, at the path `program`, with the arguments `words` until `deadline`. Return its output, its exit
    code, and the reason why it could not be run, or ""."""
    left = deadline - time.monotonic()
    if left <= 0:
        return "", None, LATE
    try:
        end = run((program, *words), {**environ, "LC_ALL": "C"}, os.sep, left, _MOST_BYTES)
    except OSError as error:
        return "", None, f"nvidia-smi cannot be started: {error.strerror or error}"
    return end.output, end.code, ""


def _read_program(program: str, environ: Mapping[str, str], run: Run) -> GpuReport:
    """Read the GPUs by nvidia-smi, at the path `program`, and return the GpuReport. If it contains no GPUs, try again
    without the ranks' library paths: a path to CUDA's stubs makes nvidia-smi load a library that only imitates the
    driver's."""
    deadline = time.monotonic() + LIMIT
    report = _answer(program, environ, run, deadline)
    if report.gpus or not any(name in environ for name in _LIBRARIES):
        return report
    fewer = {name: value for name, value in environ.items() if name not in _LIBRARIES}
    again = _answer(program, fewer, run, deadline)
    return again if again.gpus or again.missing else report


def _answer(program: str, environ: Mapping[str, str], run: Run, deadline: float) -> GpuReport:
    text, code, failure = ask(program, ("-q", "-x"), environ, run, deadline)
    if failure:
        return GpuReport("nvidia-smi", failure=failure)
    report = parse_xml(text)
    is_whole = "<nvidia_smi_log>" in text and "</nvidia_smi_log>" in text
    if is_whole or report.missing or (not report.gpus and code is not None):
        return report
    return GpuReport("nvidia-smi", failure=LATE if code is None else CUT_OFF)
