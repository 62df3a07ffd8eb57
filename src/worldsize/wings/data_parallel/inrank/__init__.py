"""Data parallelism for an unchanged single-process torch script. A rank loads this package if the job requests it.

The package is located in the run directory as a part of `worldsize_inrank`. It imports relatively, or from there, and
uses only the standard library and torch. Its other modules are loaded after the script has imported torch.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "WORLDSIZE_DATA_PARALLEL"


class StubFinder:
    """The last finder of imports. With it, scripts in a rank find worldsize's `shard` even if the package is not
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
    """Install data parallelism in this process, which is the rank, after torch was imported. Do nothing if the job does
    not request it, or with a single rank. Processes that the rank starts, such as workers that load data, are not
    changed."""
    mode = os.environ.pop(VARIABLE, None)
    if mode is not None and int(os.environ["WORLDSIZE_WORLD_SIZE"]) > 1:
        from .install import install

        install(mode, os.environ)
