"""Reads a distribution alone, as it is read within a job."""

from __future__ import annotations

from typing import Any

from worldsize.jobspec.distribution import Distribution
from worldsize.jobspec.keys.key import Key
from worldsize.jobspec.reading.job import read_distribution
from worldsize.jobspec.reading.problems import Problems
from worldsize.jobspec.reading.tree import to_node


def parse_distribution(value: Any, where: str, warnings: list[str]) -> Distribution | None:
    """A distribution from a mapping or from one of the classes above; None stays None.

    Keys that the kind does not know, at any depth, are appended to `warnings`.
    Raises JobError, at `where`, for a missing or unknown type and for values of a wrong type or size.
    """
    report = Problems()
    distribution = read_distribution(to_node(value, where), "distribution", Key("distribution", ""), report)
    report.check()
    warnings.extend(report.warnings)
    return distribution
