"""Runs an unchanged single-process torch script as one data-parallel training: a rank loads this when the job asks for
it.

Lies in the run directory as a package of `worldsize_inrank`, and imports relatively, or from there; standard library
and torch only. The rest is loaded once the script has imported torch.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "WORLDSIZE_DATA_PARALLEL"


class StubFinder:
    """The last finder of imports: in a rank, scripts find worldsize's `shard` even where the package is not
    installed."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != "worldsize":
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, os.path.join(os.path.dirname(__file__), "shard.py"))


def at_start() -> None:
    sys.meta_path.append(StubFinder)


def on_torch(torch: Any) -> None:
    """Install data parallelism, in this process alone, which is the rank: what it starts, such as workers that load
    data, is left alone."""
    mode = os.environ.pop(VARIABLE, None)
    if mode is not None and int(os.environ["WORLDSIZE_WORLD_SIZE"]) > 1:
        from .install import install

        install(mode, os.environ)
