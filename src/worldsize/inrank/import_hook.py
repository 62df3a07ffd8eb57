"""Hook that calls functions once a module has been imported, and that loads the packages which a run loads with torch.

In a run this module is in `worldsize_inrank/` with the other packages of `inrank/`. No user's module has that name.
Standard library only. It costs one more finder on `sys.meta_path` until the module is imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any


def load(names: str) -> None:
    """Load the packages `names` (separated by commas) of this module's directory into a rank. The function `at_start()`
    of each package, if it has one, is called now. Its `on_torch(torch)` is called when torch has been imported, in the
    order of the names, before the import statement returns."""
    for name in names.split(","):
        path = __name__.rpartition(".")[0] + "." + name
        __import__(path)
        package = sys.modules[path]
        if hasattr(package, "at_start"):
            package.at_start()
        call_after_import("torch", package.on_torch)


def call_after_import(name: str, function: Callable[[ModuleType], None]) -> None:
    """Call `function(module)` once the module `name` has been executed, or now if it was executed before. Several
    functions for one module are called in the order in which they were registered. The import raises what they raise.
    """
    module = sys.modules.get(name)
    if module is not None:
        function(module)
        return
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.name == name:
            finder.functions.append(function)
            return
    sys.meta_path.insert(0, _Finder(name, function))


class _Finder:
    """Finder for one module, which it finds through the other finders. It makes the module's loader call the functions
    after the import."""

    def __init__(self, name: str, function: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.functions = [function]
        self._busy = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name != self.name or self._busy:
            return None
        self._busy = True
        try:
            spec = _find_spec(name, path, target)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        """Replace the `exec_module` of `loader`, the loader of the finder's module, with one that calls the registered
        functions after the module has been executed. The loader itself is changed, and not wrapped, since `inspect` and
        `importlib.resources` check its type."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = execute
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            for function in self.functions:
                function(module)

        loader.exec_module = exec_module


def _find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None) -> Any:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find is not None else None
        if spec is not None:
            return spec
    return None
