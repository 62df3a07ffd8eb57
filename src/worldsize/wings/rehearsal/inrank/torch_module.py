"""The torch module that a rehearsal changes. Its functions and methods are replaced by wrappers that receive the
original.

torch is not imported here: it is imported already. Its types are declared as Any, since type information on it is not
needed.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, Mapping

torch: Any = sys.modules["torch"]
F: Any = torch.nn.functional

_MARK = "_worldsize_virtual"


def patch(owner: Any, name: str, wrapper: Callable[..., Any], *others: Any) -> None:
    """Replace the function `owner.name` by one that calls `wrapper(original, …)` with the original function and the
    arguments, and the same name in each of `others` that has it. Do nothing if there is no such name, or it is already
    replaced."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def patched(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    setattr(patched, _MARK, True)
    for each in (owner, *others):
        if hasattr(each, name):
            setattr(each, name, patched)


def arguments_of(function: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments `args` and `kwargs` of a call of `function` as a dict by their parameters' names, without
    defaults. Raise TypeError if the function does not accept them."""
    return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
