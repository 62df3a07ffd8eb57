"""A download, and the analysis of the call that causes it."""

from __future__ import annotations

import ast
import os
import re
from functools import cached_property

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.script.reading.calls import argument, has_stars, text
from worldsize.wings.checks.script.reading.decisions import constants
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.reading.words import words_behind

_PATH_WORDS = (
    r"(?i)path|dir|folder|file|ckpt|checkpoint|output|save|local|cache|input|environ|getenv|join|resume|root|home|work"
    r"|scratch"
)


_WRITERS = ("save_pretrained", "save_model", "save_to_disk", "makedirs", "mkdir", "Path", "TrainingArguments", "save")
_TARGETS = ("output_dir", "local_dir", "save_directory", "dirpath", "save_dir", "dst")


class Download(NamedTuple):
    """A download by a call or a command.

    what  the call or command, as text for users: `MNIST(download=True)`
    kind  "huggingface", "torch_hub", "pip", "data", "wandb" or "service": the part of `stage:` that replaces it
    name  the name of the downloaded object, if the call contains it; else ""
    host  "host:port" of its location, if that is known; else ""
    sure  False if a value that is not known here might prevent the download
    """

    what: str
    kind: str
    name: str = ""
    host: str = ""
    sure: bool = True


class CallsOf:
    """Facts about all calls of a program, which are computed once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.own_modules = {module.name.partition(".")[0] for module in program.index.modules}

    @cached_property
    def written(self) -> set[str]:
        """The paths that the script writes to, if they are literals."""
        program = self.program
        nodes = [part for each in program.flow.calls(*_WRITERS) for part in each.args[:2]]
        nodes += [each.value for made in program.index.calls for each in made.keywords if each.arg in _TARGETS]
        values = [constants(program, node) for node in nodes[:200]]
        return {each for found in values for each in found or () if isinstance(each, str) and each}


class DownloadCall:
    """A call in a script. `name` is the full name of the called function, independent of how it was imported; "?.x" for
    a method of an object that is no module."""

    def __init__(self, calls: CallsOf, node: ast.Call) -> None:
        self.calls, self.program, self.node = calls, calls.program, node
        self.name = _imported_name(calls, node.func)
        self.last = self.program.index.last_name(node.func)

    def is_in_package(self, *packages: str) -> bool:
        """Return whether the called function was imported from one of these top-level packages, such as "datasets"."""
        return self.name.partition(".")[0] in packages

    def is_own(self) -> bool:
        """Return whether the script itself defines the called function or its class. The body of such a function is
        analysed, too."""
        index = self.program.index
        if self.last in index.functions:
            return True
        owner = self.node.func.value if isinstance(self.node.func, ast.Attribute) else self.node.func
        return index.last_name(owner) in index.classes and not self._has_foreign_base(index.last_name(owner))

    def _has_foreign_base(self, name: str) -> bool:
        classes = self.program.index.classes
        bases = [self.program.index.last_name(base) for each in classes[name] for base in each.bases]
        return any(base not in classes and base not in ("object", "ABC") for base in bases)

    def has(self, name: str) -> bool:
        """Return whether the call has this keyword argument."""
        return argument(self.node, name) is not None

    def value(self, name: str, place: int | None = None) -> object:
        """Return the only literal value that an argument of the call can have, by its keyword `name` or its position
        `place`; None if there is no such argument, or if its value is not known."""
        node = argument(self.node, name, place)
        found = None if node is None else constants(self.program, node)
        return found[0] if found and len(found) == 1 else None

    def first(self, *names: str) -> ast.expr | None:
        """Return the expression of the call's first argument, which may be passed by one of the keywords in `names`;
        None if there is none."""
        found = [argument(self.node, name, 0) for name in names or ("",)]
        return next((node for node in found if node is not None), None)

    def text_of(self, node: ast.expr | None) -> str:
        """Return the only text that an expression in the script can have as its value; "" if that is not known."""
        found = constants(self.program, node) if node is not None else None
        return found[0] if found and len(found) == 1 and isinstance(found[0], str) else ""

    def may_be_path(self, node: ast.expr) -> bool:
        """Return whether an argument of unknown value may be a local path and not the name of a download, because its
        expression or its names look like a path, or because one of its possible values is one."""
        if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call | ast.Subscript) or has_stars(self.node):
            return True
        origins = self.program.flow.origins(node) or []
        values = [text(origin) for origin in origins]
        if any(value is None or self.is_local(value) for value in values):
            return True
        return any(re.search(_PATH_WORDS, word) for word in words_behind(self.program.flow, node))

    def is_local(self, name: str) -> bool:
        """Return whether a text, which may name a model or data set, is a local path and not a name on the hub: because
        it looks like a path, because such a file exists, or because the script itself writes there."""
        if name.startswith((".", "/", "~", "file:")) or "\\" in name:
            return True
        request, command = self.program.request, self.program.command
        root = os.path.join(request.code_dir, command.directory)
        file = os.path.join(request.code_dir, self.program.index.file_of(self.node))
        places = (request.code_dir, root, os.path.dirname(file), os.path.dirname(os.path.join(root, command.script)))
        if any(os.path.exists(os.path.join(place, name)) for place in places):
            return True
        return any(name == made or name.startswith(made.rstrip("/") + "/") for made in self.calls.written)


def _imported_name(calls: CallsOf, function: ast.expr) -> str:
    index = calls.program.index
    parts: list[str] = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    head = None
    if isinstance(function, ast.Name):
        head = index.alias(function.id, index.scope_of(function))
    if head is None or head.startswith(".") or head.partition(".")[0] in calls.own_modules:
        return ".".join(["?", *reversed(parts)])
    return ".".join([head, *reversed(parts)])
