"""Distributions: how the ranks of a job find each other. One class per kind, one registry by type name.

A new kind is a class here, an entry in `DISTRIBUTIONS` and its keys in `keys.py`; whether this release can run it
is planning's to say.
"""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

Kind = TypeVar("Kind", bound=type)


def tolerant(kind: Kind) -> Kind:
    """Keywords that the kind does not have only warn, as in a job file: Azure's own samples have them."""
    exact: Any = kind.__new__

    @functools.wraps(exact)
    def create(cls: type, *values: Any, **named: Any) -> Any:
        unknown = named.keys() - set(cls._fields)  # type: ignore[attr-defined]
        if unknown:
            import warnings

            what = "%s has no %s: ignored" % (cls.__name__, ", ".join(sorted(unknown)))
            warnings.warn(what, stacklevel=2)
        return exact(cls, *values, **{name: value for name, value in named.items() if name not in unknown})

    kind.__new__ = create  # type: ignore[assignment]
    return kind


@tolerant
class PlainDistribution(NamedTuple):
    """Ranks of no framework, with every convention set."""

    process_count_per_instance: int = 1
    type: str = "none"


@tolerant
class PyTorchDistribution(NamedTuple):
    """torch.distributed: its variables set directly, or by one torchrun per node (`launcher="torchrun"`)."""

    process_count_per_instance: int = 1
    launcher: str = "direct"
    type: str = "pytorch"


@tolerant
class TensorFlowDistribution(NamedTuple):
    """`TF_CONFIG`; without a worker_count there is one worker per instance."""

    parameter_server_count: int = 0
    worker_count: int | None = None
    type: str = "tensorflow"


@tolerant
class MpiDistribution(NamedTuple):
    """Ranks started by mpirun."""

    process_count_per_instance: int = 1
    type: str = "mpi"


@tolerant
class RayDistribution(NamedTuple):
    """A Ray cluster: a head and workers, one per instance."""

    port: int | None = None
    address: str | None = None
    include_dashboard: bool | None = None
    dashboard_port: int | None = None
    head_node_additional_args: str | None = None
    worker_node_additional_args: str | None = None
    type: str = "ray"


Distribution = PlainDistribution | PyTorchDistribution | TensorFlowDistribution | MpiDistribution | RayDistribution

DISTRIBUTIONS: Mapping[str, type[Distribution]] = {
    "pytorch": PyTorchDistribution,
    "tensorflow": TensorFlowDistribution,
    "mpi": MpiDistribution,
    "ray": RayDistribution,
    "none": PlainDistribution,
}


def processes_per_instance(distribution: Distribution | None) -> int | None:
    """Processes on each node; None where the kind lays out roles instead (tensorflow, ray)."""
    if distribution is None:
        return 1
    if isinstance(distribution, (TensorFlowDistribution, RayDistribution)):
        return None
    return distribution.process_count_per_instance


def parse_distribution(value: Any, where: str, warnings: list[str]) -> Distribution | None:
    """A distribution from a mapping or from one of the classes above; None stays None.

    Keys that the kind does not know, at any depth, are appended to `warnings`.
    Raises JobError, at `where`, for a missing or unknown type and for values of a wrong type or size.
    """
    from worldsize.spec.jobreader import read_distribution
    from worldsize.spec.report import Report
    from worldsize.spec.tree import to_node

    report = Report()
    distribution = read_distribution(to_node(value, where), "distribution", report)
    report.check()
    warnings.extend(report.warnings)
    return distribution
