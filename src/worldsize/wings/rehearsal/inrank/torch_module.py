"""The torch module that a rehearsal changes: its functions and methods are replaced by ones that get the original.

torch is not imported here: it is there already, and its types are of no use.
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
    """Put `wrapper(original, …)` in the place of `owner.name`, and of the same name of `others` that have it. Nothing
    happens where there is no such name, or it is replaced already."""
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
    """Return the given arguments by their names. Raises TypeError as the function would."""
    return dict(inspect.signature(function).bind(*args, **kwargs).arguments)
