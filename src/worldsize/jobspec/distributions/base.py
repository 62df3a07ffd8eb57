"""Common parts of all kinds of distributions, which are named tuples of their keys: the arrangement of ranks, keys and
helpers."""

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
    """The ranks of a distribution and its requirements on the agents.

    nodes     the ranks of each node, with their roles
    launcher  the launcher that starts them, by its name in plan/launchers.py; "direct": each node's agent itself
    options   the launcher's own options, as values that JSON can represent
    ports, leaders, lingering   as in the plan
    conventions   those that are always applied, even if the job restricts them
    default_conventions   those that are applied if the job does not restrict them; (): all
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
    """Make the constructor of the distribution class `kind` ignore unknown keyword arguments with a warning, as a job
    file does, since Azure's own samples contain them. Return the class; for use as a decorator."""
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
    """Return the path or name by which a job's shell command `command` (or its words `argv`, if there are any) starts
    the program `program`; "" if the command does not start it."""
    if argv:
        return argv[0] if argv[0].rpartition("/")[2] == program else ""
    pattern = rf"(?:^|[\n;&|(])\s*(?:\w+=\S*\s+)*(?:exec\s+)?((?:\S*/)?{program})\s"
    return max(re.findall(pattern, command), key=len, default="")
