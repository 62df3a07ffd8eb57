"""Starts a script whose first steps are recorded: `python start.py ORDER.json SCRIPT [ARGUMENT...]`.

This package is imported by a name of its own, so that neither worldsize need be installed for the script's Python nor
the script finds modules that are not its own.
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
