"""What travels to a node, or is loaded inside a rank, imports nothing that the user's own Python lacks.

import-linter holds the same of the packages that it is told; this finds every other one.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import zipfile

import pytest
from driver import agent_bundle

SOURCE = os.path.join(os.path.dirname(__file__), "..", "..", "src", "worldsize")
NEWER = {"annotationlib", "_sha2", "_sha256"}
"""Of the standard library of other Pythons than this one, and imported only there."""

OF_CLIENT = {"__init__.py", "registry.py", "plan/external_launchers.py"}
"""What travels, and has functions that only a client calls."""

OWN = {**dict.fromkeys(("agent", "common", "plan", "state", "trust"), "worldsize"), "inrank": "worldsize torch"}


def sources() -> list[tuple[str, str]]:
    """(path under src/worldsize, the packages beyond the standard library that it may import)."""
    found = [("errors.py", "worldsize"), ("registry.py", "worldsize")]
    wings = os.listdir(os.path.join(SOURCE, "wings"))
    sides = {
        "agent": "worldsize",
        "judgement": "worldsize",
        "inrank": "worldsize worldsize_inrank torch mlflow debugpy",
    }
    of_wings = {os.path.join("wings", wing, side): allowed for wing in wings for side, allowed in sides.items()}
    for package, allowed in {**OWN, **of_wings}.items():
        for folder, _, names in os.walk(os.path.join(SOURCE, package)):
            files = (os.path.relpath(os.path.join(folder, name), SOURCE) for name in names if name.endswith(".py"))
            found += [(file, allowed + " mlflow" * ("worldsize_mlflow" in file)) for file in sorted(files)]
    return found


def imported(path: str) -> set[str]:
    """The top-level packages that a file imports anywhere, inside functions too."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        tree = ast.parse(file.read(), path, feature_version=(3, 8))
    packages = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            packages.add("worldsize" if node.level else (node.module or "").split(".")[0])
    return packages


@pytest.mark.heavy
def test_imports_only_what_a_node_has() -> None:
    standard = set(sys.stdlib_module_names) | NEWER
    beyond = {path: imported(path) - standard - set(allowed.split()) for path, allowed in sources()}
    assert len(beyond) > 100
    assert {path: names for path, names in beyond.items() if names} == {}


def own_modules(path: str) -> set[str]:
    """The modules of worldsize that a file imports anywhere, as paths under src/worldsize."""
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("worldsize."):
            module = (node.module or "").removeprefix("worldsize.")
            names |= {module, *("%s.%s" % (module, each.name) for each in node.names)}
    return {name.replace(".", os.sep) for name in names}


@pytest.mark.heavy
def test_agents_import_only_what_travels_with_them() -> None:
    """agent.pyz holds no more; here all of the source is there, and an import of anything else would go well."""
    travelling = set(bundled_files())
    assert len(travelling) > 100
    missing = {}
    for path in travelling - OF_CLIENT:
        own = {name for name in own_modules(path) if os.path.exists(os.path.join(SOURCE, name + ".py"))}
        missing[path] = sorted(name for name in own if name + ".py" not in travelling)
    assert {path: names for path, names in missing.items() if names} == {}


def bundled_files() -> list[str]:
    """The modules in agent.pyz, as paths under src/worldsize."""
    with zipfile.ZipFile(io.BytesIO(agent_bundle()[1])) as bundle:
        names = [name.partition("/")[2] for name in bundle.namelist() if name.endswith(".py") and "/" in name]
    return [name for name in names if os.path.exists(os.path.join(SOURCE, name))]
