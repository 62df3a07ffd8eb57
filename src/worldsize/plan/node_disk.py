"""What a node needs on its own disk before its ranks start, beside the run directory. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.plan.plan import Plan

DIRECTORY_MARK = "@WORLDSIZE_LOCAL@"
"""A placeholder for the run's own directory on a node, which only the node knows."""

LOCAL_DIR_VARIABLE = "WORLDSIZE_LOCAL_DIR"
"""On a node, where such directories are made; in a rank, the directory of its run."""


class InputCopy(NamedTuple):
    """An input that every node copies: `source` as the nodes call it, `target` below the run's own directory."""

    name: str
    source: str
    target: str


class PackedEnvironment(NamedTuple):
    """A packed environment that nodes unpack on their own disks, where it stays for later runs.

    file     as the nodes call it; `digest` is its sha256, `size` counts its bytes
    prefix   what the plan calls the environment
    """

    file: str
    digest: str
    size: int
    prefix: str


class NodeDiskPlan(NamedTuple):
    """What is done on each node before its ranks start.

    base       where the node makes such directories, in terms of the node's environment; "": the usual places
    copies     inputs of the mode `download`
    read_only  paths that the ranks are to see read-only, where the system can
    variables  those of the job's variables that hold DIRECTORY_MARK
    archive    the environment that nodes unpack, or None
    """

    base: str = ""
    copies: tuple[InputCopy, ...] = ()
    read_only: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    archive: PackedEnvironment | None = None


def with_local_variables(plan: Plan) -> Plan:
    """`plan` with the variables that hold DIRECTORY_MARK in its `local`, where nobody takes them for what ranks see."""
    if plan.local is None:
        return plan
    apart = {name: value for name, value in plan.environment.items() if DIRECTORY_MARK in value}
    rest = {name: value for name, value in plan.environment.items() if name not in apart}
    return plan._replace(environment=rest, local=plan.local._replace(variables=apart))


def resolve_placeholders(plan: Plan, directory: str, environment: str | None = None) -> Plan:
    """`plan` as it is on a node where `directory` is the run's own, and its environment lies in `environment`."""
    local = plan.local
    if local is None:
        return plan
    prefix = local.archive.prefix if local.archive and environment else ""

    def put(text: str) -> str:
        return replace_directory(text.replace(DIRECTORY_MARK, directory), prefix, environment or "")

    variables = {**plan.environment, **local.variables}
    return plan._replace(
        argv=tuple(map(put, plan.argv)),
        path=tuple(map(put, plan.path)),
        library_path=tuple(map(put, plan.library_path)),
        activated={name: value and put(value) for name, value in plan.activated.items()},
        environment={**{name: put(value) for name, value in variables.items()}, LOCAL_DIR_VARIABLE: directory},
        python=put(plan.python),
    )


def replace_directory(text: str, old: str, new: str) -> str:
    """`text` with `new` for the directory `old`, where that stands alone or before a slash."""
    if not old or old not in text:
        return text
    import re

    return re.sub(re.escape(old) + r"(?![\w.+-])", lambda _: new, text)
