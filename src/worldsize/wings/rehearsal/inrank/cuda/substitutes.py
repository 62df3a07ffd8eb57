"""Replacements for torch's functions and classes: functions that refuse to work, and classes whose call creates another
object."""

from __future__ import annotations

from typing import Any, Callable

from .. import messages


def make_refusal(what: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(messages.REFUSED % what)

    return refuse


def make_substitute(original: Any, make: Callable[..., Any], instances: Any = ()) -> Any:
    """Return a class that replaces `original`. Torch's own code accepts it as `original`, by its bases, and annotations
    accept it as a class. Calling it calls `make`. Its instances are those of the class, or of the tuple of classes,
    `instances`."""
    members = {"__module__": original.__module__, "__doc__": make.__doc__}
    for name in ("priority_range", "from_ipc_handle"):
        if hasattr(instances, name):
            members[name] = staticmethod(getattr(instances, name))
    try:
        return _make_kind(type(original), make, instances)(original.__name__, (original,), members)
    except TypeError:  # a type written in C that cannot have subclasses
        return _make_kind(type, make, instances)(original.__name__, (), members)


def _make_kind(base: Any, make: Callable[..., Any], instances: Any) -> Any:
    methods = {
        "__call__": lambda cls, *args, **kwargs: make(*args, **kwargs),
        "__instancecheck__": lambda cls, value: isinstance(value, instances),
    }
    return type("Standing", (base,), methods)
