"""Rule for addresses and ports that a script contains instead of using those of the run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.state.check_rows import BAD, WARNING
from worldsize.wings.checks.script.reading.calls import argument, has_stars, text
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.request import ScriptFinding

ID = "script.address"
_LOOPBACK = r"(tcp://)?(localhost|127(\.\d+){3}|\[?::1\]?)(:\d*)?(/\S*)?$"
_USES_VARIABLES = ("init_process_group", "init_distributed", "init_device_mesh")
_WAIT = "the ranks of the other nodes would wait for their own rank 0"


def fixed_addresses(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if a script on several nodes uses the loopback address for the rendezvous, or a port that
    is not that of the run."""
    if program.nodes < 2:
        return
    loopback = list(_loopback_arguments(program))
    if not loopback and _reads_variables(program):
        loopback = list(_loopback_variables(program))
    yield from loopback[:1]
    if not loopback and _reads_variables(program):
        yield from list(_fixed_ports(program))[:1]


def _origin_texts(program: Program, node: ast.expr | None) -> list[str | None]:
    origins = None if node is None else program.flow.origins(node)
    return [None] if not origins else [text(origin) for origin in origins]


def _is_loopback(program: Program, node: ast.expr | None) -> bool:
    texts = _origin_texts(program, node)
    return all(each is not None and re.match(_LOOPBACK, each) for each in texts)


def _loopback_arguments(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding for each call in the script that creates the process group with a loopback address among
    its arguments."""
    for names, keyword, place in (
        (("init_process_group",), "init_method", 1),
        (("init_distributed",), "init_method", None),
        (("initialize",), "coordinator_address", 0),
    ):
        for call in program.flow.calls(*names):
            if names == ("initialize",) and not program.index.full_name(call.func).startswith("jax.distributed."):
                continue
            node = argument(call, keyword, place)
            if node is not None and _is_loopback(program, node) and program.flow.is_always(call):
                hint = "leave the address out: it then uses MASTER_ADDR and MASTER_PORT, which the run sets"
                if names == ("initialize",):
                    hint = "call jax.distributed.initialize() without arguments"
                yield program.finding(ID, call, f"the ranks would meet at the loopback address: {_WAIT}", BAD, hint)


def _reads_variables(program: Program) -> bool:
    """Return whether torch reads MASTER_ADDR in this script, because the calls that create its process groups have no
    address of their own."""
    calls = program.flow.calls(*_USES_VARIABLES)
    return bool(calls) and all(_uses_variables(program, call) for call in calls)


def _uses_variables(program: Program, call: ast.Call) -> bool:
    if has_stars(call) or argument(call, "store") is not None:
        return False
    method = argument(call, "init_method", 1 if program.index.last_name(call.func) == "init_process_group" else None)
    return method is None or (_origin_texts(program, method) in (["env://"], [None]) and text(method) == "env://")


def _certain_assignments(program: Program, variable: str) -> list[tuple[ast.Assign, ast.expr]]:
    """Return pairs (statement, value) for the statements `os.environ[variable] = value` in the script if all of them
    are always executed; an empty list otherwise."""
    found = list(_assignments(program, variable))
    return found if all(program.flow.is_always(store) for store, _ in found) else []


def _assignments(program: Program, variable: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    for store in program.index.stores:
        for target in store.targets:
            if not isinstance(target, ast.Subscript) or text(target.slice) != variable:
                continue
            if program.index.full_name(target.value) in ("os.environ", "environ") and program.flow.is_reached(store):
                yield store, store.value


def _loopback_variables(program: Program) -> Iterator[ScriptFinding]:
    found = _certain_assignments(program, "MASTER_ADDR")
    if found and all(_is_loopback(program, value) for _, value in found):
        for store, _ in found:
            what = f"MASTER_ADDR is set to the loopback address: {_WAIT}"
            hint = 'leave it out, or os.environ.setdefault("MASTER_ADDR", …): the run has set it'
            yield program.finding(ID, store, what, BAD, hint)


def _fixed_ports(program: Program) -> Iterator[ScriptFinding]:
    for store, value in _certain_assignments(program, "MASTER_PORT"):
        texts = _origin_texts(program, value)
        if all(each is not None and each.isdigit() for each in texts):
            what = f"MASTER_PORT is always {texts[0]}: another program on that node may have it"
            hint = 'leave it out, or os.environ.setdefault("MASTER_PORT", …): the run has found a free one'
            yield program.finding(ID, store, what, WARNING, hint)
