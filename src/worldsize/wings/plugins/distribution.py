"""A wrapper for a kind of distribution of another package. If the package's code raises, or returns a wrong value, the
error is one sentence that names the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

from worldsize.entry_points import ExternalPart
from worldsize.errors import JobError
from worldsize.jobspec.distributions.base import Arrangement
from worldsize.jobspec.keys.key import Key
from worldsize.plan.plan import NodePlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.jobspec.distribution import Distribution

_NEEDED = ("keys", "world_size", "arrange", "_fields", "_field_defaults")


def load_external_kind(group: str, name: str) -> type[Distribution] | None:
    """Return the distribution class that a package registers as an entry point under `name`, with checks of its return
    values; None if no package does. In addition to the errors of `Distribution`, its methods raise JobError. Raise
    JobError if the class is not a valid distribution."""
    part = ExternalPart(group, name, "the distribution", JobError, "distribution.type")
    kind = part.load(_NEEDED)
    if kind is None:
        return None
    if not isinstance(kind, type) or not issubclass(kind, tuple):
        raise part.problem("is not a class of named tuples")
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    missing = {"type", *fields} - set(kind._field_defaults)  # type: ignore[attr-defined]
    if missing:
        raise part.problem(f"lacks defaults for {', '.join(sorted(missing))}")
    keys = part.call("keys", kind.keys, partial(_are_keys, fields), "a mapping of its fields to keys")  # type: ignore[attr-defined]
    return _with_checks(part, kind, keys)


def _with_checks(part: ExternalPart, kind: Any, keys: Mapping[str, Key]) -> type[Distribution]:
    """Return a subclass of the distribution class `kind` whose methods check the return values of the methods of
    `kind`. `keys` are the checked keys."""

    def world_size(self: Any, instances: int) -> Any:
        return part.call("world_size", lambda: kind.world_size(self, instances), _is_count, "a number of ranks")

    def arrange(self: Any, instances: int) -> Any:
        return part.call("arrange", lambda: kind.arrange(self, instances), _is_arrangement, "an Arrangement")

    checked = {"keys": staticmethod(lambda: keys), "world_size": world_size, "arrange": arrange, "__slots__": ()}
    own = {**checked, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return cast("type[Distribution]", type(kind.__name__, (kind,), own))


def _are_keys(fields: tuple[str, ...], made: Any) -> bool:
    return isinstance(made, Mapping) and all(name in fields and isinstance(key, Key) for name, key in made.items())


def _is_count(made: Any) -> bool:
    return isinstance(made, int) and made > 0


def _is_arrangement(made: Any) -> bool:
    if not isinstance(made, Arrangement):
        return False
    nodes: Any = made.nodes
    return isinstance(nodes, tuple) and all(isinstance(node, NodePlan) for node in nodes)
