"""Distributions: how the ranks of a job find each other. One small module per kind, by its type's name: `none` and
`pytorch` in `distributions/`, the others in wings, any of which may be missing.

Packages of others add kinds through the entry points `worldsize.distributions`: the name is the type, the object a
class that does what `Distribution` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from worldsize.common.named_tuple import Protocol
from worldsize.registry import find_module, load_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.jobspec.distributions.base import Arrangement
    from worldsize.jobspec.keys.key import Keys

ENTRY_POINTS = "worldsize.distributions"


class Distribution(Protocol):
    """A named tuple: one field for each of its keys, with its default, and `type` last.

    A kind with a field `process_count_per_instance` puts equal ranks on every node; one without lays out roles.
    """

    @property
    def _fields(self) -> tuple[str, ...]: ...

    @property
    def type(self) -> str: ...

    @staticmethod
    def keys() -> Keys:
        """Its keys in a job file: what each takes, what it means."""

    def world_size(self, instances: int) -> int:
        """Return how many ranks it has on so many nodes."""

    def arrange(self, instances: int) -> Arrangement:
        """Who runs where, and how it is started. Raises PlanError where the roles do not fit."""

    @property
    def _replace(self) -> Callable[..., Any]: ...


_HOMES = {
    "pytorch": ("jobspec.distributions.pytorch", "PyTorchDistribution"),
    "tensorflow": ("wings.frameworks.tensorflow", "TensorFlowDistribution"),
    "mpi": ("wings.mpi.distribution", "MpiDistribution"),
    "horovod": ("wings.horovod.distribution", "HorovodDistribution"),
    "deepspeed": ("wings.deepspeed.distribution", "DeepSpeedDistribution"),
    "jax": ("wings.frameworks.jax", "JaxDistribution"),
    "ray": ("wings.frameworks.ray", "RayDistribution"),
    "none": ("jobspec.distributions.plain", "PlainDistribution"),
}
"""The module and the class of each kind that is worldsize's own; loaded when it is first used."""


class _DistributionKinds(Mapping[str, "type[Distribution]"]):
    """Every kind by its type's name: worldsize's own, then those of other packages, which are looked for only where the
    own ones do not answer, since that takes longer than a whole short run. ConfigError for an own kind whose wing is
    not installed; whoever goes through all sees the others."""

    def __getitem__(self, name: str) -> type[Distribution]:
        if name not in _HOMES:
            return _load_entry_point(name)
        module, kind = _HOMES[name]
        found: type[Distribution] = getattr(load_module(module, f"the distribution {name}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        from worldsize.entry_points import entry_point_names

        yield from (name for name, (module, _) in _HOMES.items() if find_module(module))
        yield from (name for name in entry_point_names(ENTRY_POINTS) if name not in _HOMES)

    def __len__(self) -> int:
        return sum(1 for _ in self)


DISTRIBUTIONS: Mapping[str, type[Distribution]] = _DistributionKinds()


def _load_entry_point(name: str) -> type[Distribution]:
    wing = load_module("wings.plugins.distribution", "using distributions of other packages")
    kind: type[Distribution] | None = wing.load_external_kind(ENTRY_POINTS, name)
    if kind is None:
        raise KeyError(name)
    return kind


def kind_names(said: str) -> tuple[str, ...]:
    """Return the names among which `said` is to be found, in any case, or all there are."""
    return tuple(_HOMES) if said.lower() in _HOMES else tuple(DISTRIBUTIONS)


def processes_per_instance(distribution: Distribution | None) -> int | None:
    """Processes on each node; None where the kind lays out roles instead (tensorflow, ray)."""
    return 1 if distribution is None else getattr(distribution, "process_count_per_instance", None)
