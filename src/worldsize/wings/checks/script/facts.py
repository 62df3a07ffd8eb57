"""The facts of a script that a check of the nodes uses: its modules, its loaders' workers, its backend, and the
internet hosts that it connects to."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Callable, Iterator

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.script.hosts import hosts_of
from worldsize.wings.checks.script.reading.backends import backend_of
from worldsize.wings.checks.script.reading.program import Program, read_program
from worldsize.wings.checks.script.reading.sources import SourceModule
from worldsize.wings.checks.script.request import ScriptRequest
from worldsize.wings.checks.script.rules.loaders import workers_of

_NOTHING: dict[str, Any] = {"modules": [], "workers": None, "backend": None, "hosts": []}


def script_facts(request: ScriptRequest, clock: Callable[[], float] = time.thread_time) -> dict[str, Any]:
    """Read the job's script, without executing it, and return its facts for the node check. `modules` are the top-level
    modules from outside the code that the script always imports. `workers` is the largest number of workers of a
    loader. `backend` is that of its process group. `hosts` are texts "host:port". An unknown value is None, or missing
    from the lists."""
    program = read_program(request, clock)
    return dict(_NOTHING) if program is None else facts_of(program)


def facts_of(program: Program) -> dict[str, Any]:
    """Return the facts `modules`, `workers`, `backend` and `hosts` of a script that was read. Return empty facts if its
    analysis fails."""
    try:
        return {
            "modules": sorted(_unconditional_imports(program)),
            "workers": workers_of(program),
            "backend": backend_of(program),
            "hosts": hosts_of(program),
        }
    except Exception:  # noqa: BLE001  no facts are known of a source that is strange enough
        return dict(_NOTHING)


def _unconditional_imports(program: Program) -> set[str]:
    """Return the names of the top-level modules from outside the code that are imported at the top of the script, or at
    the top of its own modules that are imported so. Modules of the standard library are omitted."""
    modules = {module.name: module for module in program.index.modules}
    waiting, seen, found = [program.index.modules[0]], set[str](), set[str]()
    while waiting:
        module = waiting.pop()
        seen.add(module.path)
        for name in _imports_at_the_top(module):
            top = name.partition(".")[0]
            if top in program.sources.foreign:
                found.add(top)
            own = [modules[each] for each in _and_above(name) if each in modules]
            waiting += [each for each in own if each.path not in seen]
    return found - set(sys.stdlib_module_names)


def _imports_at_the_top(module: SourceModule) -> Iterator[str]:
    for statement in module.tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            above = module.package.split(".")[: len(module.package.split(".")) - statement.level + 1]
            base = ".".join([*(above if statement.level else []), *([statement.module] if statement.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in statement.names)


def _and_above(name: str) -> Iterator[str]:
    """Yield the dotted name of a module, and then the names of the packages that contain it: "a.b.c", "a.b", "a"."""
    while name:
        yield name
        name = name.rpartition(".")[0]
