"""Preparation of a node's own disk before its ranks start, in addition to the run directory. All functions are pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.plan.plan import Plan

DIRECTORY_MARK = "@WORLDSIZE_LOCAL@"
"""Placeholder for the run's own directory on a node, which only the node knows."""

LOCAL_DIR_VARIABLE = "WORLDSIZE_LOCAL_DIR"
"""Variable with the parent of such directories on a node, and with the directory of its run in a rank."""


class InputCopy(NamedTuple):
    """An input that every node copies. `source` is its path on the nodes, `target` is below the run's own directory."""

    name: str
    source: str
    target: str


class PackedEnvironment(NamedTuple):
    """A packed environment that nodes unpack on their own disks, where it is kept for later runs.

    file     its path on the nodes; `digest` is its sha256, `size` its number of bytes
    prefix   the path of the environment in the plan
    """

    file: str
    digest: str
    size: int
    prefix: str


class NodeDiskPlan(NamedTuple):
    """The preparation of each node before its ranks start.

    base       parent of such directories, in terms of the node's environment; "": the usual places
    copies     inputs of the mode `download`
    read_only  paths that the ranks must see read-only, if the system supports it
    variables  those of the job's variables that contain DIRECTORY_MARK
    archive    the environment that nodes unpack, or None
    """

    base: str = ""
    copies: tuple[InputCopy, ...] = ()
    read_only: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    archive: PackedEnvironment | None = None


def with_local_variables(plan: Plan) -> Plan:
    """Return `plan` with those of its environment variables that contain DIRECTORY_MARK moved to the variables in
    `plan.local`, so that no code takes them for the values in the ranks. Unchanged if the plan prepares no disks."""
    if plan.local is None:
        return plan
    apart = {name: value for name, value in plan.environment.items() if DIRECTORY_MARK in value}
    rest = {name: value for name, value in plan.environment.items() if name not in apart}
    return plan._replace(environment=rest, local=plan.local._replace(variables=apart))


def resolve_placeholders(plan: Plan, directory: str, environment: str | None = None) -> Plan:
    """Return `plan` for one node, with DIRECTORY_MARK replaced by `directory`, the run's own directory on this node's
    disk, and the path of a packed environment by `environment`, the directory in which it was unpacked."""
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
    """Return `text` with the directory path `old` replaced by `new`, wherever it is a whole path or the beginning of
    one in the text."""
    if not old or old not in text:
        return text
    import re

    return re.sub(re.escape(old) + r"(?![\w.+-])", lambda _: new, text)
