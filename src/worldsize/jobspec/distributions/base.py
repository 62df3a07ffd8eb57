"""What every kind of distribution is made of: a named tuple of its keys, and how its ranks are arranged."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.plan import NodePlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from worldsize.jobspec.keys.key import Key

    Kind = TypeVar("Kind", bound=type)


class Arrangement(NamedTuple):
    """What a distribution asks of the agents.

    nodes     the ranks of each node, with their roles
    launcher  what starts them, by its name in plan/launchers.py; "direct": each node's agent itself
    options   the launcher's own, as JSON can hold them
    ports, leaders, lingering   as in the plan
    conventions   those that must be in force, whatever the job narrows them to
    default_conventions   those that are in force where the job does not narrow them; (): all
    """

    nodes: tuple[NodePlan, ...]
    launcher: str = "direct"
    options: Mapping[str, Any] = {}
    ports: str = ""
    leaders: tuple[int, ...] = ()
    lingering: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    default_conventions: tuple[str, ...] = ()


def ignore_unknown_keywords(kind: Kind) -> Kind:
    """Make keywords that the kind does not have only warn, as in a job file: Azure's own samples have them."""
    exact: Any = kind.__new__

    @functools.wraps(exact)
    def create(cls: type, *values: Any, **named: Any) -> Any:
        unknown = named.keys() - set(cls._fields)  # type: ignore[attr-defined]
        if unknown:
            import warnings

            warnings.warn(f"{cls.__name__} has no {', '.join(sorted(unknown))}: ignored", stacklevel=2)
        return exact(cls, *values, **{name: value for name, value in named.items() if name not in unknown})

    kind.__new__ = create  # type: ignore[assignment]
    return kind


def count_key(doc: str, minimum: int = 1) -> Key:
    from worldsize.jobspec.job import MAX_RANKS
    from worldsize.jobspec.keys.key import Key

    return Key("int", doc, minimum=minimum, maximum=MAX_RANKS, quoted=True)


def processes_key() -> Key:
    return count_key("Processes on each node; usually its number of GPUs.")


def program_name(program: str, command: str, argv: Sequence[str]) -> str:
    """How a command names `program`, if it starts it: by a path, or by its name alone. "" where it does not."""
    if argv:
        return argv[0] if argv[0].rpartition("/")[2] == program else ""
    pattern = rf"(?:^|[\n;&|(])\s*(?:\w+=\S*\s+)*(?:exec\s+)?((?:\S*/)?{program})\s"
    return max(re.findall(pattern, command), key=len, default="")
