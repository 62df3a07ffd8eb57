"""Reader for a script and the modules of its own code that it imports. It reads within bounds, and executes nothing."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice

from worldsize.common.named_tuple import NamedTuple
from worldsize.service.submission.plain_script import read_source
from worldsize.wings.checks.script.reading.command_line import ScriptCommand

MOST_FILES = 60
MOST_SECONDS = 0.3
_MOST_LOOKED_FOR = 10_000
"""The largest number of imported names that are searched for among the files."""

_MOST_ENTRIES = 10_000
_MOST_SCANNED = 1 << 31
"""The number of bytes that the parser may scan, which takes about a second. Python 3.11 and earlier search the whole
string for each field of an f-string."""


class Bounds(NamedTuple):
    """The bounds of reading: the number of files, and the CPU seconds of this thread."""

    files: int = MOST_FILES
    seconds: float = MOST_SECONDS


_USUAL = Bounds()
Import = tuple[str, int, tuple[str, ...]]


class SourceModule(NamedTuple):
    """A source file. `path` is relative to the code's directory. `name` is the dotted name by which it is imported,
    such as "models.net". `package` is the package that its relative imports start from."""

    path: str
    name: str
    package: str
    tree: ast.Module


class Sources(NamedTuple):
    """The sources that were read. `modules[0]` is the script. `foreign` are the top-level modules from outside the code
    that are imported anywhere. `complete` means that nothing was left out, so that code which is not in `modules` does
    not exist."""

    modules: tuple[SourceModule, ...]
    foreign: frozenset[str]
    complete: bool


class _Reader:
    def __init__(self, code_dir: str, command: ScriptCommand, clock: Callable[[], float], bounds: Bounds) -> None:
        self.root = os.path.realpath(code_dir)
        self.clock, self.end, self.most_files = clock, clock() + bounds.seconds, bounds.files
        self.start = os.path.normpath(os.path.join(self.root, command.directory))
        self.searched: list[str] = []
        self.modules: dict[str, SourceModule] = {}
        self.foreign: set[str] = set()
        self.complete, self.is_over, self.looked_for = True, False, 0

    def read(self, command: ScriptCommand) -> None:
        entry = self.entry(command)
        if entry is None:
            self.complete = False
            return
        self.searched = list(dict.fromkeys((os.path.dirname(entry), self.start, self.root)))
        name = command.module or os.path.basename(entry)[: -len(".py")]
        waiting = [(entry, name, name.rpartition(".")[0])]
        while waiting and not self.is_over:
            module = self.parse(*waiting.pop(0))
            if module is not None:
                waiting += list(self.imported_files(module))

    def entry(self, command: ScriptCommand) -> str | None:
        if command.script:
            return os.path.normpath(os.path.join(self.start, command.script))
        base = os.path.join(self.start, *command.module.split("."))
        places = (base + ".py", os.path.join(base, "__main__.py"))
        return next((path for path in places if os.path.isfile(path)), None)

    def parse(self, path: str, name: str, package: str) -> SourceModule | None:
        if path in self.modules:
            return None
        self.is_over = len(self.modules) >= self.most_files or self.clock() >= self.end
        tree = None if self.is_over else self.tree(path)
        if tree is None:
            self.complete = False
            return None
        self.modules[path] = SourceModule(os.path.relpath(path, self.root), name, package, tree)
        return self.modules[path]

    def tree(self, path: str) -> ast.Module | None:
        source = read_source(path, self.root)
        return None if source is None else parse_source(source)

    def imported_files(self, module: SourceModule) -> Iterator[tuple[str, str, str]]:
        """Yield the files of the script's own code that a module imports, each as (path, dotted name, package). Stop
        and mark the reading as incomplete if there are too many names or the time is over."""
        for name, level, names in imports_of(module.tree):
            self.looked_for += 1 + len(names)
            if self.looked_for > _MOST_LOOKED_FOR or self.clock() >= self.end:
                self.complete, self.is_over = False, True
                return
            if level:
                above = module.package.split(".") if module.package else []
                above = above[: len(above) - level + 1]
                yield from self.files(".".join([*above, name] if name else above), names)
            else:
                yield from self.files(name, names)

    def files(self, name: str, names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
        top = name.partition(".")[0]
        root = next((folder for folder in self.searched if _holds(folder, top)), None) if top else None
        if root is None:
            if top and top not in sys.stdlib_module_names:
                self.foreign.add(top)
            return
        parts = name.split(".")
        wanted = [parts[:count] for count in range(1, len(parts) + 1)] + [[*parts, other] for other in names]
        for each in wanted:
            base = os.path.join(root, *each)
            dotted = ".".join(each)
            if os.path.isfile(base + ".py"):
                yield base + ".py", dotted, dotted.rpartition(".")[0]
            elif os.path.isfile(os.path.join(base, "__init__.py")):
                yield os.path.join(base, "__init__.py"), dotted, dotted


def _holds(folder: str, top: str) -> bool:
    base = os.path.join(folder, top)
    return os.path.isfile(base + ".py") or os.path.isfile(os.path.join(base, "__init__.py")) or _is_namespace(base)


def _is_namespace(base: str) -> bool:
    """Return whether `base` is a directory that contains Python files, so that it is a package without an
    `__init__.py`. Only the first 10,000 entries of a large directory, such as a data set, are examined."""
    try:
        with os.scandir(base) as entries:
            return any(entry.name.endswith(".py") for entry in islice(entries, _MOST_ENTRIES))
    except OSError:
        return False


def imports_of(tree: ast.Module) -> Iterator[Import]:
    """Yield all imports in a module's syntax tree, including those inside functions, as (module, level, names). `level`
    is the number of leading dots."""
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, 0, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level, tuple(alias.name for alias in node.names)
        elif not isinstance(node, ast.expr):
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                stack += getattr(node, field, ())


def parse_source(source: bytes) -> ast.Module | None:
    """Parse the bytes of a Python file and return their syntax tree; None if the source is not valid for this Python,
    is nested too deeply, or would take very long to parse."""
    if source.count(b"{") * len(source) > _MOST_SCANNED and re.search(rb"[fF][rR]?['\"]", source):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_sources(code_dir: str, command: ScriptCommand, clock: Callable[[], float], bounds: Bounds = _USUAL) -> Sources:
    """Read the script of a ScriptCommand and the modules of its own code in `code_dir` that it imports, and return
    their Sources. `complete` is False if the bounds are reached, or if a file cannot be read or parsed."""
    reader = _Reader(code_dir, command, clock, bounds)
    try:
        reader.read(command)
    except (OSError, ValueError):  # a name with a NUL byte, or one too long for the file system
        reader.complete = False
    return Sources(tuple(reader.modules.values()), frozenset(reader.foreign), reader.complete and bool(reader.modules))
