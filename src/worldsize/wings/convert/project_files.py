"""Reader for the files of a training: a script, and the modules in its directory that it imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence

from worldsize.common.atomic_files import read_file
from worldsize.errors import UsageError

_MOST_FILES = 200


def read_training(scripts: Sequence[str]) -> dict[str, str]:
    """Return a mapping of path to text for the `scripts` of a training and the modules that they import from their
    directories, 200 files at most. The paths are those to be shown to the user. Raise UsageError if a file cannot be
    read or is not UTF-8."""
    texts: dict[str, str] = {}
    root = os.path.dirname(scripts[0])
    pending = [os.path.normpath(script) if script else "" for script in scripts]
    while pending:
        path = pending.pop(0)
        if path in texts or len(texts) >= _MOST_FILES:
            continue
        texts[path] = _read(path)
        imported = (each for each in _imported(path, texts[path], root) if each not in texts)
        pending += [each for each in imported if not os.path.relpath(each, root or os.curdir).startswith(os.pardir)]
    return texts


def _imported(path: str, text: str, root: str) -> Iterator[str]:
    """Yield the paths of the files of the modules that the Python text of the file `path` imports. They are searched
    for in the first script's directory (`root`), and for relative imports in the directory of the importing file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the conversion reports this error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _module_files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = root
            if node.level:
                base = os.path.dirname(path)
                for _ in range(node.level - 1):
                    base = os.path.dirname(base)
            for alias in node.names:
                yield from _module_files(base, ".".join(filter(None, (node.module, alias.name))))


def _module_files(base: str, name: str) -> Iterator[str]:
    """Yield the path of the file of the module with this dotted name below the directory `base`, and of the packages
    that contain it, as far as these exist."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        place = os.path.join(base, *parts[:count])
        for path in (place + ".py", os.path.join(place, "__init__.py")):
            if os.path.isfile(path):
                yield os.path.normpath(path)


def _read(path: str) -> str:
    try:
        return read_file(path).decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path or "convert") from None
    except ValueError:
        raise UsageError("is not text in UTF-8", path) from None
