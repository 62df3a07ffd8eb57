"""The modules that a script imports before it does anything else. Pure functions: they read its source and import
nothing."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator

from worldsize.wings.warm_start.safe_modules import SAFE, UNSAFE, WITH_OPTIMIZERS

_OPTIMIZERS = "optim"
_ENVIRON = "environ"
_OF_OTHERS = ("MASTER_", "RANK", "WORLD_SIZE", "LOCAL_RANK", "NCCL_", "GLOO_", "OMP_", "MKL_", "CUDA_", "TOKENIZERS_")
"""Prefixes of variables that scripts often set, and that torch._dynamo does not read when it is imported."""

_SETTERS = ("clear", "pop", "popitem", "setdefault", "update")


def preloadable(source: str | bytes) -> tuple[str, ...]:
    """Return the modules that can be imported before a script with this `source` begins, in the script's order. Only
    the statements at its top count, up to the first one that does not import the standard library or a safe module: any
    statement before an import may change what the import does. Raise SyntaxError, ValueError if the source is not
    Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    found: dict[str, None] = {}
    for name in _leading_imports(tree):
        if _is_safe(name):
            found[name] = None
        elif name.partition(".")[0] not in sys.stdlib_module_names:
            break
    if (
        any(name.partition(".")[0] == "torch" for name in found)
        and _names_optimizers(tree)
        and not _sets_variables(tree)
    ):
        found[WITH_OPTIMIZERS] = None
    return tuple(found)


def _is_safe(name: str) -> bool:
    return name.partition(".")[0] in SAFE and not any((name + ".").startswith(each + ".") for each in UNSAFE)


def _leading_imports(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the modules that a script imports before any other statement except constants, such as
    docstrings. A relative import is yielded as "."."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "." if node.level == 0 else "."
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            return


def _names_optimizers(tree: ast.Module) -> bool:
    """Return whether the script names `torch.optim`, in an import or as an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == _OPTIMIZERS:
            return True
        if isinstance(node, ast.ImportFrom) and node.module and _OPTIMIZERS in node.module.split("."):
            return True
        names = node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ()
        if any(_OPTIMIZERS in alias.name.split(".") for alias in names):
            return True
    return False


def _sets_variables(tree: ast.Module) -> bool:
    """Return whether the script changes os.environ, except for variables that no compiler of torch reads. The module
    that torch's optimizers import (torch._dynamo) reads hundreds of variables; in a plain start, the script has set
    them before."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and _is_environ(node.value):
            name = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if not isinstance(name, str) or not name.startswith(_OF_OTHERS):
                return True
        if isinstance(node, ast.Attribute) and (
            node.attr == "putenv" or (node.attr in _SETTERS and _is_environ(node.value))
        ):
            return True
    return False


def _is_environ(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == _ENVIRON) or (
        isinstance(node, ast.Name) and node.id == _ENVIRON
    )
