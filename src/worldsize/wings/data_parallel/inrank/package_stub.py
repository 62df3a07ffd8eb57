"""A stub of the package worldsize, for where it is not installed."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StubFinder:
    """The last finder of imports: scripts find in a rank what of the package they need there."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "worldsize":
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        from .shard import shard

        module.shard = shard
