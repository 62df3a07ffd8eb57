"""Where worldsize's own source files are: some are copied into run directories, or run by programs of their own.

Standard library only: travels inside agent.pyz (Python >= 3.8), where nothing uses it.
"""

from __future__ import annotations

import os

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def source_file(*names: str) -> str:
    """The path of a file or folder of the package `worldsize`."""
    return os.path.join(_PACKAGE, *names)
