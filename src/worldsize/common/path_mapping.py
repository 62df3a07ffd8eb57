"""The mapping of a shared directory that has another name on the nodes: paths on the nodes for paths on this machine,
and back. Pure.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import TypeAlias

Mapped: TypeAlias = "tuple[tuple[str, str], ...]"
"""Pairs of names of a directory, absolute and without a slash at their ends: this machine's name, and the nodes'
name."""


def to_node_path(path: str, mapped: Mapped) -> str:
    """Return the path that `path` on this machine has on the nodes. A path that is in none of the `mapped` directories
    keeps its name."""
    return _with_prefix_swapped(path, mapped)


def to_client_path(path: str, mapped: Mapped) -> str:
    """Return the path on this machine for `path`, which may be given with the nodes' name of a `mapped` directory. Any
    other path keeps its name."""
    if is_mapped(path, mapped):
        return path
    return _with_prefix_swapped(path, tuple((theirs, ours) for ours, theirs in mapped))


def is_mapped(path: str, mapped: Mapped) -> bool:
    """Return whether `path` on this machine is in one of the `mapped` directories, which the nodes see too."""
    return any(_is_inside(path, ours) for ours, _ in mapped)


def _with_prefix_swapped(path: str, pairs: Mapped) -> str:
    for known, other in pairs:
        if _is_inside(path, known):
            return (other.rstrip("/") + path[len(known.rstrip("/")) :]) or "/"
    return path


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
