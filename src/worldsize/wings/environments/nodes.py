"""Queries to the nodes of a compute: what they have, and which modules of an environment can be imported there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import ComputeNode, NodeCommandStream
from worldsize.environment.activation import Activation
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.config.config import Config
from worldsize.service.compute_nodes import default_nodes, execute_on_own_nodes, usable_names
from worldsize.service.computes import python_path
from worldsize.service.environments.loaded_paths import without_secrets
from worldsize.service.environments.lookup import Environment
from worldsize.trust.secrets import mask_values, secret_values
from worldsize.wings.environments.inspect.node_check import NodeReport, check_argv, parse_node_report

_TICK = 0.2
_LIMIT = 60.0
_NAME = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")


def check_on_nodes(
    compute: Compute,
    config: Config,
    environment: Environment | None,
    modules: Sequence[str],
    count: int | None,
    environ: Mapping[str, str],
) -> tuple[list[NodeReport], list[ComputeNode]]:
    """Execute `env check` on each usable node of the compute, or on `count` nodes in an allocation of their own. Return
    the nodes' reports on their Python and packages, and the list of the nodes that a run uses by default, which is
    empty if `count` is given. Raise UsageError for a compute that cannot execute commands on nodes, and for an
    environment that is packed or not built."""
    if environment is not None and environment.archive:
        what = "a packed environment exists only while a run uses it"
        raise UsageError(what, environment.archive, "name the prefix that it was packed from")
    if environment is not None and not environment.ready:
        what = "is not built, so there is nothing to check yet"
        raise UsageError(what, environment.prefix, "worldsize env build, with the same words")
    nodes = default_nodes(compute) if count is None else []
    names = usable_names(nodes, compute.name) if count is None else ()
    number = count if count is not None else len(names)
    found = environment.activation(environ) if environment else None
    secrets = _secrets(environment, found, environ) if environment and found else []
    argv, variables, named = _argv(compute, config, environment, found, modules, environ)
    named = without_secrets(named, secrets)
    asked = execute_on_own_nodes(compute, argv, number, os.sep, None, names, variables, named)
    rows = [parse_node_report(*each) for each in _read_outputs(asked, number, names)]
    return [NodeReport(*mask_values(row, secrets)) for row in rows], nodes


def _secrets(environment: Environment, found: Activation, environ: Mapping[str, str]) -> list[str]:
    """Return the secret values in the variables that the environment's activation `found` sets, and in those variables
    of `environ` that the job names as secrets."""
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
    """Return the command of `env check` for a node, the variables that the command needs, and the paths of this machine
    that it names. The command applies the activation `found` first."""
    from worldsize.plan.setup_script import bash_command

    distributions = named_distributions(environment) if environment else ()
    if environment is None or environment.existing is None:
        path = python_path(config, compute.name, environ)
        python = os.path.join(path[0], "python") if path else "python3"
    else:
        python = environment.existing.python
    words = check_argv(python, modules, distributions)
    lines = found.shell_lines() if found else []
    named = (*([python] if os.path.isabs(python) else []), *(found.loaded_paths() if found else ()))
    if not lines:
        return words, {}, named
    return (*bash_command([*lines, 'exec "$@"'], words), named)


def named_distributions(environment: Environment) -> list[str]:
    """Return the names of the packages in the pip part of the environment, without versions. Lines with URLs and
    options are left out."""
    found = []
    for line in environment.spec.pip:
        name = _NAME.match(line)
        if name and "://" not in line and not line.lstrip().startswith("-"):
            found.append(name[1])
    return found


class NodeOutput(NamedTuple):
    """The output of a command on one node. Without a `code` the node was lost, and `err` contains the reason."""

    name: str
    code: int | None
    out: str
    err: str


def _read_outputs(asked: NodeCommandStream, count: int, names: Sequence[str] = ()) -> list[NodeOutput]:
    """Return the output of a command on each of `count` nodes, after all have ended. `err` is the compute's own note if
    the node printed no error. A node that did not report its name gets the one in `names`, if there is one, or its
    number. Raise the same errors as the stream's `read_events`."""
    said: dict[tuple[int, str], list[bytes]] = {}
    codes: dict[int, int] = {}
    try:
        while (events := asked.read_events(_TICK)) is not None:
            for each in events:
                said.setdefault((each.node, each.kind), []).append(each.data)
                if each.kind == "end":
                    codes[each.node] = each.code
    finally:
        asked.close()

    def text(node: int, kind: str) -> str:
        return b"".join(said.get((node, kind), ())).decode(errors="replace")

    found = []
    note = said.get((-1, "note"), [b""])[-1].decode(errors="replace")
    for node in range(count):
        if node in codes:
            err = text(node, "err") or note
        else:
            err = "it was lost: " + (text(node, "lost") or note or "it did not report its end")
        name = names[node] if node < len(names) else str(node)
        found.append(NodeOutput(text(node, "up") or name, codes.get(node), text(node, "out"), err))
    return found


_PROGRAM = """\
import ctypes, json, os, platform
found = {"host": platform.node(), "glibc": "", "cuda": ""}
try:
    found["glibc"] = (os.confstr("CS_GNU_LIBC_VERSION") or "").replace("glibc ", "")
except (OSError, ValueError):
    pass
try:
    version = ctypes.c_int(0)
    if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
        found["cuda"] = "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
except (OSError, AttributeError):
    pass
print(json.dumps(found))
"""


class ProbeResult(NamedTuple):
    """The result of a probe. `node` is the name of the node. `virtual` holds its virtual packages, in conda's notation:
    "__cuda=12.4"."""

    node: str
    virtual: tuple[str, ...]


def probe(compute: Compute) -> ProbeResult:
    """Query one node, which the compute chooses, for its conda virtual packages (glibc and CUDA versions). Raise
    WorldsizeError if the node does not report them; UsageError for a compute that cannot execute commands."""
    words = ["sh", "-c", 'command -v python3 >/dev/null && exec python3 -c "$0" || exec python -c "$0"', _PROGRAM]
    (answer,) = _read_outputs(execute_on_own_nodes(compute, words, 1, os.sep, _LIMIT), 1)
    for line in answer.out.splitlines():
        if line.startswith("{"):
            said = json.loads(line)
            pairs = (("__glibc", said["glibc"]), ("__cuda", said["cuda"]))
            return ProbeResult(said["host"], tuple("{}={}".format(*pair) for pair in pairs if pair[1]))
    last = answer.err.strip().splitlines()
    raise WorldsizeError(
        f"a node of {compute.name} did not report its virtual packages", None, last[-1] if last else None
    )
