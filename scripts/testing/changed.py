"""Which test files a change may affect, the most affected first.

A test file is affected by a changed module that it imports, directly or through others, or by the name of a wing's
module in a text; by its own change and those of its helpers; by the pages and examples that it names. A test that
starts the command line as a process counts as importing all of worldsize, at a distance. The nearest come first.
"""

from __future__ import annotations

import ast
import heapq
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMAND_LINE = "src/worldsize/__main__.py"
_NAMED_MODULE = re.compile(r'"(?:worldsize\.)?(wings(?:\.\w+)+)"')
OF_TESTS = ("tests/", "src/worldsize_conformance/")
_STARTS_COMMAND_LINE = re.compile(r'"-m", "worldsize"|-m worldsize|"worldsize", ')
PROCESS_DISTANCE = 4
"""What starts worldsize as a process comes after what imports a module through up to three others."""


def changed_files(base: str) -> list[str]:
    """Paths that differ from the commit in the working tree, new ones included. CalledProcessError: no such commit."""
    diff = _git("diff", "--name-only", "--no-renames", base, "--")
    new = _git("ls-files", "--others", "--exclude-standard")
    return sorted({*diff.splitlines(), *new.splitlines()})


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def affected_tests(changed: Iterable[str]) -> list[str]:
    """Test files, the most affected first."""
    files = python_files()
    graph = importers(files)
    named_in = {path: text for path, text in files.items() if path.startswith("tests/")}
    distances = distances_from(changed, graph, named_in)
    tests = [path for path in distances if os.path.basename(path).startswith("test_") and path in files]
    return sorted(tests, key=lambda path: (distances[path], path))


def python_files() -> dict[str, str]:
    """The text of each Python file of the program and its tests, by its path."""
    found = {}
    for root in ("src", "tests", "scripts"):
        for folder, _, names in os.walk(os.path.join(ROOT, root)):
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        found[os.path.relpath(path, ROOT)] = file.read()
    return found


def importers(files: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """For each file those that import it, with the distance of that step."""
    modules = {module_name(path): path for path in files}
    graph: dict[str, dict[str, int]] = {path: {} for path in files}
    for path, text in files.items():
        named = {"worldsize." + name for name in _NAMED_MODULE.findall(text)}
        for name in imported_names(text, module_name(path), path.endswith("__init__.py")) | named:
            if name in modules and modules[name] != path:
                graph[modules[name]][path] = 1
        folder = os.path.dirname(path)
        while folder.startswith("tests"):
            helper = os.path.join(folder, "conftest.py")
            if helper in files and helper != path:
                graph[helper].setdefault(path, 1)
            folder = os.path.dirname(folder)
        if path.startswith(OF_TESTS) and _STARTS_COMMAND_LINE.search(text):
            graph[COMMAND_LINE].setdefault(path, 1)
    for path in files:
        # The command line loads each verb's module by its name, and starts agents and ranks as programs.
        if path.startswith("src/") and not path.startswith(OF_TESTS) and path != COMMAND_LINE:
            graph[path].setdefault(COMMAND_LINE, PROCESS_DISTANCE)
    return graph


def module_name(path: str) -> str:
    """As it is imported: below src/ by its package, below a folder of scripts/ from the root, below tests/ by its own
    name or its folder's package."""
    words = os.path.splitext(path)[0].split("/")
    if words[-1] == "__init__":
        words.pop()
    if words[0] == "src":
        return ".".join(words[1:])
    if words[0] == "scripts" and len(words) > 2:
        return ".".join(words)
    if words[0] == "tests" and len(words) == 3 and words[1] in ("chaos", "hpcpack", "security", "slurm"):
        return ".".join(words[1:])
    if words[:2] == ["tests", "azure"]:  # no package, since `azure` is Azure's own; it holds one
        return ".".join(words[2:])
    return words[-1]


def imported_names(text: str, module: str, package: bool = False) -> set[str]:
    """The modules that a file imports anywhere in it, and their packages."""
    found = set()
    for node in _statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                words = module.split(".")
                kept = words[: len(words) - node.level + package]
                base = ".".join([*kept, *([node.module] if node.module else [])])
            found.add(base)
            found.update("%s.%s" % (base, alias.name) for alias in node.names)
    return found


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """What a file is made of, without the expressions, which hold no import and are most of it."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        left += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]


def distances_from(
    changed: Iterable[str], graph: Mapping[str, Mapping[str, int]], tests: Mapping[str, str]
) -> dict[str, int]:
    """How far each file is from the nearest changed one; files that no changed one reaches are not there."""
    distances: dict[str, int] = {}
    waiting: list[tuple[int, str]] = []
    for path in changed:
        if path in graph:
            waiting.append((0, path))
        else:
            waiting.extend((1, test) for test in naming(path, tests))
    heapq.heapify(waiting)
    while waiting:
        distance, path = heapq.heappop(waiting)
        if path in distances:
            continue
        distances[path] = distance
        for other, step in graph.get(path, {}).items():
            if other not in distances:
                heapq.heappush(waiting, (distance + step, other))
    return distances


def naming(path: str, tests: Mapping[str, str]) -> list[str]:
    """The test files that name a page, an example or a requirements file; every page is read by those of docs/."""
    words = path.split("/")
    word = words[1] if words[0] == "examples" and len(words) > 1 else words[-1]
    found = [test for test, text in tests.items() if word in text]
    if path.endswith(".md"):
        found += [test for test in tests if test.startswith("tests/docs/test_")]
    return found
