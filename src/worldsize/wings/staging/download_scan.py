"""What a job's files would download when they run, as far as reading them tells. Nothing is executed.

Only what is plain is told: a call whose name, through the file's imports, is that of a known downloader. A name that is
computed, or a download inside a library, is not seen.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator

from worldsize.wings.staging.download_rules import RULES, CallSite, Download, downloads_in_shell

_MOST_FILES = 300
_MOST_BYTES = 2 << 20


def downloads_of(code: str, text: str) -> list[Download]:
    """Of the command's `text`, of the Python files that it names in the directory `code`, and of the files there that
    these import."""
    found = list(downloads_in_shell(text))
    for file in _reachable_files(code, text):
        found += _downloads_in_file(code, file)
    return found


def _reachable_files(code: str, text: str) -> list[str]:
    """What the command names, as a script or a module, and what it imports from the code, in the order they are met."""
    seen: list[str] = []
    modules = [name.replace(".", os.sep) for name in re.findall(r"\s-m\s+([\w.]+)", text)]
    named = [*re.findall(r"[\w./-]+\.py\b", text), *(name + ".py" for name in modules)]
    front = [os.path.normpath(name) for name in (*named, *(os.path.join(name, "__main__.py") for name in modules))]
    while front and len(seen) < _MOST_FILES:
        file = front.pop(0)
        if file in seen or not os.path.isfile(os.path.join(code, file)):
            continue
        seen.append(file)
        tree = _parse_file(code, file)
        if tree is not None:
            front += _imported_files(tree, code, os.path.dirname(file))
    return seen


def _parse_file(code: str, file: str) -> ast.Module | None:
    path = os.path.join(code, file)
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            return None
        with open(path, "rb") as source:
            return ast.parse(source.read(), file)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _imported_files(tree: ast.Module, code: str, beside: str) -> Iterator[str]:
    """Files of the code that the module may import: of its own directory, as scripts see it, or of a package's."""
    for node in ast.walk(tree):
        names: list[str] = []
        places = [beside, ""]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                places = [os.path.normpath(os.path.join(beside, *[".."] * (node.level - 1)))]
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}" if base else alias.name for alias in node.names)]
        for name in filter(None, names):
            path = name.replace(".", os.sep)
            for candidate in (path + ".py", os.path.join(path, "__init__.py")):
                for place in places:
                    if os.path.isfile(os.path.join(code, place, candidate)):
                        yield os.path.normpath(os.path.join(place, candidate))


def _downloads_in_file(code: str, file: str) -> Iterator[Download]:
    tree = _parse_file(code, file)
    if tree is None:
        return
    aliases = _aliases(tree)
    beside = os.path.join(code, os.path.dirname(file))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            call = CallSite(node, _dotted_name(node.func, aliases), (beside, code))
            for rule in RULES:
                found = rule(call)
                if found is not None:
                    yield found._replace(file=file, line=node.lineno)
                    break


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the file's names are called where they come from."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _dotted_name(node: ast.expr, aliases: dict[str, str]) -> str:
    """`torchvision.datasets.MNIST` for what is called so, however it was imported; "?.x" for a method of something."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    root = aliases.get(node.id, node.id) if isinstance(node, ast.Name) else "?"
    return ".".join([root, *reversed(parts)])
