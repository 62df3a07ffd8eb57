"""Distributions, which define how the ranks of a job find each other. Each kind is a small module, by its type's name:
`none` and `pytorch` in `distributions/`, the others in wings, any of which may be missing.

Other packages add kinds through the entry points `worldsize.distributions`. The name is the type. The object is a class
with the interface of `Distribution`.
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
    """A named tuple with one field for each of its keys, with its default, and `type` last.

    A kind with a field `process_count_per_instance` puts equal ranks on every node; one without it lays out roles.
    """

    @property
    def _fields(self) -> tuple[str, ...]: ...

    @property
    def type(self) -> str: ...

    @staticmethod
    def keys() -> Keys:
        """Return the keys of this kind of distribution in a job file, by name, with their types and meanings."""

    def world_size(self, instances: int) -> int:
        """Return the total number of ranks of the distribution on `instances` nodes."""

    def arrange(self, instances: int) -> Arrangement:
        """Return, for `instances` nodes, which ranks run on each node and how the ranks are started, as an Arrangement.
        Raise PlanError if the distribution's roles do not fit on the nodes."""

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
"""The module and the class of each of worldsize's own kinds, loaded when it is first used."""


class _DistributionKinds(Mapping[str, "type[Distribution]"]):
    """Mapping of type names to kinds: worldsize's own, then those of other packages. The latter are looked up only for
    a name that is not worldsize's own, since that takes longer than a whole short run. A lookup raises ConfigError for
    an own kind whose wing is not installed; an iteration skips such kinds."""

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
    """Return the names of distributions (`distribution: type`) that the written name `said` is compared with,
    regardless of case: worldsize's own if it is one of them, else those of all installed packages too."""
    return tuple(_HOMES) if said.lower() in _HOMES else tuple(DISTRIBUTIONS)


def processes_per_instance(distribution: Distribution | None) -> int | None:
    """Return the number of processes that the distribution starts on each node, 1 if it is None; None if its kind lays
    out roles instead (tensorflow, ray)."""
    return 1 if distribution is None else getattr(distribution, "process_count_per_instance", None)
