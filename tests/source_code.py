"""What the sources say of themselves: what they import, and the packages that worldsize's extras bring."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
_MODULES = {"py-rattler": "rattler", "azure-identity": "azure", "azure-storage-blob": "azure"}
"""What a distribution's package is called where it is not as the distribution."""


@cache
def imports_at_run_time(path: Path) -> tuple[ast.ImportFrom | ast.Import, ...]:
    """Those inside functions too, but not those for type checkers."""
    found: list[ast.ImportFrom | ast.Import] = []
    left: list[ast.AST] = [ast.parse(path.read_text())]
    while left:
        node = left.pop()
        if isinstance(node, (ast.ImportFrom, ast.Import)):
            found.append(node)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            left += node.orelse
        else:  # an import is a statement, and no expression holds one
            left += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]
    return tuple(found)


def imported_packages(path: Path) -> set[str]:
    """The top-level packages."""
    names: set[str] = set()
    for node in imports_at_run_time(path):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        names |= {module.partition(".")[0] for module in modules}
    return names


def extras() -> dict[str, list[str]]:
    """The packages of each extra, as they are imported."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        told = tomllib.load(file)["project"]["optional-dependencies"]
    return {
        extra: [_MODULES.get(name, name) for name in (re.split(r"[<>=\[]", line)[0] for line in lines)]
        for extra, lines in told.items()
    }


def packages_of_extras() -> set[str]:
    """Those of all extras that worldsize itself can use."""
    lists = (packages for extra, packages in extras().items() if extra not in ("all", "torch", "examples"))
    return {package for packages in lists for package in packages}
