"""The layout of sources and tests: no file imports another that imports it, and no folder is too crowded."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from source_code import ROOT, SOURCE, imports_at_run_time

MOST_FILES = 20


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def modules() -> dict[str, Path]:
    return {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imported_modules(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in imports_at_run_time(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            found.add("%s.%s" % (base, alias.name) if "%s.%s" % (base, alias.name) in modules else base)
    return found & modules.keys() - {name}


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules of which each imports another of them; empty if there are none."""
    left = dict(graph)
    while True:
        free = [name for name, found in left.items() if not found & left.keys()]
        if not free:
            return sorted(left)
        for name in free:
            del left[name]


@pytest.mark.heavy
def test_no_module_imports_one_that_imports_it(modules: dict[str, Path]) -> None:
    graph = {name: imported_modules(name, path, modules) for name, path in modules.items()}
    assert sum(map(len, graph.values())) > 2000, "the imports were found"
    assert cycle_in({**graph, "worldsize.errors": {"worldsize.cli.main"}}), "a cycle is found"
    assert cycle_in(graph) == []


def test_folders_have_at_most_twenty_files() -> None:
    files = [path for root in (SOURCE, ROOT / "tests") for path in root.rglob("*.py") if path.stat().st_size]
    counts = Counter(str(path.parent.relative_to(ROOT)) for path in files)
    assert len(counts) > 100, "the folders were found"
    assert {folder: count for folder, count in counts.items() if count > MOST_FILES} == {}


def test_no_two_files_of_tests_have_one_name() -> None:
    """pytest imports them by it, and refuses the second."""
    counts = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(counts) > 100, "the files were found"
    assert [name for name, count in counts.items() if count > 1] == []


def test_files_that_the_architecture_names_exist() -> None:
    pages = sorted((ROOT / "docs" / "explanation" / "architecture").glob("*.md"))
    text = " ".join(page.read_text() for page in pages)
    words = [
        word for word in text.replace("`", " ").replace(",", " ").replace(")", " ").split() if word.endswith(".py")
    ]
    named = {word.lstrip("(") for word in words if word.count("/") > 1 and "<" not in word}
    assert len(named) > 50
    assert sorted(word for word in named if not any((ROOT / at / word).is_file() for at in ("", "src/worldsize"))) == []
