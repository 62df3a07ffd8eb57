"""What a check of the nodes may want to know of a script: its modules, its loaders' workers, its back end, the internet
hosts that it asks."""

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
    """modules: top-level modules of others that the script imports whatever happens; workers: of a loader, at most;
    backend: of its process group; hosts: "host:port". What is not known is None, or missing from the lists."""
    program = read_program(request, clock)
    return dict(_NOTHING) if program is None else facts_of(program)


def facts_of(program: Program) -> dict[str, Any]:
    """Return the facts of a script that was read."""
    try:
        return {
            "modules": sorted(_unconditional_imports(program)),
            "workers": workers_of(program),
            "backend": backend_of(program),
            "hosts": hosts_of(program),
        }
    except Exception:  # noqa: BLE001  a source that is strange enough tells nothing
        return dict(_NOTHING)


def _unconditional_imports(program: Program) -> set[str]:
    """Follow the imports that stand at the top of the script, and of the modules of its own that they import."""
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
    """Yield a module's name, and those of the packages around it."""
    while name:
        yield name
        name = name.rpartition(".")[0]
