"""An environment looked at from the nodes of a compute: what they have, what imports there, and what will not work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from worldsize.compute.base import Compute
from worldsize.compute.capabilities import NodeCommandStream
from worldsize.environment.activation import Activation
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import Config
from worldsize.service.compute_nodes import execute_on_own_nodes, usable_nodes
from worldsize.service.computes import python_path
from worldsize.service.environments.loaded_paths import without_secrets
from worldsize.service.environments.lookup import Environment
from worldsize.trust.secrets import mask_values, secret_values
from worldsize.wings.environments.inspect.node_check import NodeReport, check_argv, parse_node_report

_TICK = 0.2
_NAME = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")


def check_on_nodes(
    compute: Compute,
    config: Config,
    environment: Environment | None,
    modules: Sequence[str],
    count: int | None,
    environ: Mapping[str, str],
) -> tuple[list[NodeReport], int]:
    """What each node says, of all that can be used or of `count` of their own; and how many were left out. UsageError
    for a compute without such a capability, and for an environment that is packed or not built."""
    if environment is not None and environment.archive:
        what = "a packed environment is only there while a run has it"
        raise UsageError(what, environment.archive, "name the prefix that it was packed from")
    if environment is not None and not environment.ready:
        what = "is not built, so there is nothing to check yet"
        raise UsageError(what, environment.prefix, "worldsize env build, with the same words")
    names, left_out = ((), 0) if count is not None else usable_nodes(compute)
    number = count if count is not None else len(names)
    found = environment.activation(environ) if environment else None
    secrets = _secrets(environment, found, environ) if environment and found else []
    argv, variables, named = _argv(compute, config, environment, found, modules, environ)
    named = without_secrets(named, secrets)
    asked = execute_on_own_nodes(compute, argv, number, os.sep, None, names, variables, named)
    return [NodeReport(*mask_values(row, secrets)) for row in _collect_rows(asked, number)], left_out


def _secrets(environment: Environment, found: Activation, environ: Mapping[str, str]) -> list[str]:
    """Of the environment alone, and the values in `environ` of those that a job names."""
    held = {name: value for name, value in found.variables.items() if value}
    of_shell = {name: environ[name] for name in environment.secrets if name in environ}
    return [*secret_values(held, found.closed), *secret_values(of_shell, environment.secrets)]


def _argv(
    compute: Compute,
    config: Config,
    environment: Environment | None,
    found: Activation | None,
    modules: Sequence[str],
    environ: Mapping[str, str],
) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    """The command, the variables that it wants, and what it names of this machine. `found`: what is put in force."""
    from worldsize.plan.setup_script import MODULE_LINES, bash_command, module_line

    distributions = named_distributions(environment) if environment else ()
    if environment is None or environment.existing is None:
        path = python_path(config, compute.name, environ)
        python = os.path.join(path[0], "python") if path else "python3"
    else:
        python = environment.existing.python
    words = check_argv(python, modules, distributions)
    lines = [*map(module_line, found.modules), *found.lines()] if found else []
    named = (*([python] if os.path.isabs(python) else []), *(found.loaded_paths() if found else ()))
    if not lines:
        return words, {}, named
    first = MODULE_LINES if found and found.modules else ()
    return (*bash_command([*first, *lines, 'exec "$@"'], words), named)


def named_distributions(environment: Environment) -> list[str]:
    """The packages that the environment's pip part names, without versions."""
    found = []
    for line in environment.spec.pip:
        name = _NAME.match(line)
        if name and "://" not in line and not line.lstrip().startswith("-"):
            found.append(name[1])
    return found


def _collect_rows(asked: NodeCommandStream, count: int) -> list[NodeReport]:
    texts: dict[int, dict[str, bytes]] = {node: {"out": b"", "err": b""} for node in range(count)}
    hosts: dict[int, str] = {}
    codes: dict[int, int] = {}
    notes: list[str] = []
    try:
        while (said := asked.read_events(_TICK)) is not None:
            for each in said:
                if each.kind == "up":
                    hosts[each.node] = each.data.decode(errors="replace")
                elif each.kind in ("out", "err"):
                    texts[each.node][each.kind] += each.data
                elif each.kind == "end":
                    codes[each.node] = each.code
                elif each.kind in ("note", "lost"):
                    notes.append(each.data.decode(errors="replace"))
    finally:
        asked.close()
    rows = []
    for node in range(count):
        name = hosts.get(node, str(node))
        if node not in codes:
            rows.append(NodeReport(name, None, 1, "it was lost: {}".format(notes[-1] if notes else "it told no end")))
            continue
        out, err = (texts[node][kind].decode(errors="replace") for kind in ("out", "err"))
        rows.append(parse_node_report(name, codes[node], out, err))
    return rows
