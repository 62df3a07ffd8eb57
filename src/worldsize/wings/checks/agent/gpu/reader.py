"""Read a node's GPUs: by NVML, else by nvidia-smi.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import TypeAlias
from worldsize.wings.checks.agent.gpu import csv_report
from worldsize.wings.checks.agent.gpu.device import GpuReport
from worldsize.wings.checks.agent.gpu.drivers import has_nvidia, other_devices
from worldsize.wings.checks.agent.gpu.nvml import load_nvml, read_nvml
from worldsize.wings.checks.agent.gpu.program import (
    MOST_BYTES,
    Output,
    environment_without_libraries,
    execute,
    find_nvidia_smi,
)
from worldsize.wings.checks.agent.gpu.xml_report import parse_xml
from worldsize.wings.checks.agent.node_context import NodeContext

LIMIT = 15.0
"""Seconds for all questions to nvidia-smi: less than a probe has, so that the row says what was late."""

NOT_FOUND = "nvidia-smi was not found"
LATE = "nvidia-smi did not answer in time"
CUT_OFF = "nvidia-smi ended in the middle of its answer"

Execute: TypeAlias = "Callable[[str, Sequence[str], Mapping[str, str], float], Output]"


def asked_gpus(context: NodeContext) -> int | None:
    """The GPUs that the job asks for on a node; None where that is not known."""
    asked = context.asked.get("gpus")
    return asked if isinstance(asked, int) and not isinstance(asked, bool) and asked >= 0 else None


def is_looked_at(context: NodeContext) -> bool:
    """Whether GPUs matter here: the job asks for some, or does not say and there are some. Virtual GPUs do not."""
    if context.environ.get("WORLDSIZE_VIRTUAL_GPUS"):
        return False
    asked = asked_gpus(context)
    return asked > 0 if asked is not None else has_nvidia(context) or other_devices(context) == "a GPU under WSL"


def read_gpus(context: NodeContext, run: Execute = execute) -> GpuReport:
    """What can be read; a report with a failure, and no GPUs, where nothing can."""
    if has_nvidia(context):
        nvml = load_nvml()
        found = read_nvml(nvml) if nvml is not None else None
        if found is not None:
            return found
    program = find_nvidia_smi(context)
    if program is None:
        return GpuReport(failure=NOT_FOUND)
    return _read_program(program, context.environ, run)


def _read_program(program: str, environ: Mapping[str, str], run: Execute) -> GpuReport:
    """The long answer; where it is none, again without the ranks' paths of libraries, then the short question."""
    deadline = time.monotonic() + LIMIT
    report = _long_answer(program, environ, run, deadline)
    if not report.gpus and (fewer := environment_without_libraries(environ)) is not None:
        again = _long_answer(program, fewer, run, deadline)
        report, environ = (again, fewer) if again.gpus or again.missing else (report, environ)
    if report.gpus or report.missing or report.failure == LATE:
        return report
    return _short_answer(program, environ, run, deadline) or report


def _long_answer(program: str, environ: Mapping[str, str], run: Execute, deadline: float) -> GpuReport:
    output = _ask(program, ("-q", "-x"), environ, run, deadline)
    if isinstance(output, str):
        return GpuReport("nvidia-smi", failure=output)
    report = parse_xml(output.text)
    is_whole = "</nvidia_smi_log>" in output.text or len(output.text) >= MOST_BYTES
    if is_whole or report.missing or (not report.gpus and output.code is not None):
        return report
    return GpuReport("nvidia-smi", failure=LATE if output.code is None else CUT_OFF)


def _short_answer(program: str, environ: Mapping[str, str], run: Execute, deadline: float) -> GpuReport | None:
    for fields in csv_report.QUESTIONS:
        output = _ask(program, csv_report.question(fields), environ, run, deadline)
        report = None if isinstance(output, str) else csv_report.parse_csv(output.text, fields)
        if report is not None and report.gpus:
            return report
    return None


def _ask(program: str, words: Sequence[str], environ: Mapping[str, str], run: Execute, deadline: float) -> Output | str:
    """What it printed, or in words why it could not be asked."""
    left = deadline - time.monotonic()
    if left <= 0:
        return LATE
    try:
        return run(program, words, environ, left)
    except OSError as error:
        return f"nvidia-smi cannot be started: {error.strerror or error}"
