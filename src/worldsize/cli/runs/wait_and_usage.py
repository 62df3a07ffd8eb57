"""The information that a compute adds to a run's status, in words: why the run waits, and what it used."""

from __future__ import annotations

from worldsize.cli.output import lines_of
from worldsize.common.named_tuple import Any
from worldsize.state.records import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import Usage, WaitExplanation


def warning_lines(status: Status) -> list[str]:
    """Return all warnings about a succeeded run but the first, which is shown next to the run's state, each as a
    line."""
    return ["warning: " + " ".join(lines_of(warning.text)) for warning in status.warnings[1:]]


def waiting_lines(waiting: WaitExplanation) -> list[str]:
    """Return the lines that explain why a run waits: the reason, and then the changes of options with which the run
    would start sooner."""
    lines = [waiting.words]
    if waiting.sooner:
        lines += ["it would start sooner with", *("  " + change.words for change in waiting.sooner)]
    return lines


def waiting_data(waiting: WaitExplanation | None) -> dict[str, Any] | None:
    """Return the explanation why a run waits as a dictionary for JSON: {reason, words, expected, stuck, sooner:
    [{options, words, start, gain}]}; None if the run does not wait."""
    if waiting is None:
        return None
    return {**waiting._asdict(), "sooner": [change._asdict() for change in waiting.sooner]}


def usage_text(usage: Usage | None) -> str:
    """Return the resources that a run used as text: "0.4 GPU-hours, CPU 87 % busy". Without GPUs it has CPU-hours.
    Return "" if nothing is known."""
    if usage is None or not usage.elapsed:
        return ""
    parts = []
    if usage.gpu_hours:
        parts.append(_amount(usage.gpu_hours, "GPU"))
    elif usage.cpu_hours:
        parts.append(_amount(usage.cpu_hours, "CPU"))
    if usage.cpu_efficiency is not None:
        parts.append(f"CPU {100 * usage.cpu_efficiency:.0f} % busy")
    return ", ".join(parts)


def _amount(hours: float, what: str) -> str:
    if hours >= 0.1:
        return "{} {}-hours".format(f"{hours:.1f}" if hours < 100 else f"{hours:.0f}", what)
    return f"{60 * hours:.1f} {what}-minutes"
