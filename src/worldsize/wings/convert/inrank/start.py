"""Starter for a script whose first steps are recorded: `python start.py ORDER.json SCRIPT [ARGUMENT...]`.

This package is imported under a separate name. For this reason, worldsize need not be installed for the script's
Python, and the script finds no modules that are not its own.
"""

import importlib
import importlib.util
import os
import sys

NAME = "worldsize_check"


def main() -> None:
    del sys.path[0]  # the directory of this file
    folder = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    if spec is None:
        raise ImportError(folder)
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    importlib.import_module(NAME + ".recorder").main()


if __name__ == "__main__":
    main()
