"""The environment of a zipapp, `worldsize.pyz`: pex installs it into a directory below ~/.cache/pex, and sets variables
that name this directory. Programs that worldsize starts must not take it for an environment that the user activated."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping


def restore_environment(environ: MutableMapping[str, str]) -> None:
    """Change `environ` to what it was before pex set PEX and VIRTUAL_ENV. VIRTUAL_ENV is again the virtual environment
    whose `python` is the first on PATH, if there is one. A variable that pex has not set is left as it is."""
    environ.pop("PEX", None)
    if environ.get("VIRTUAL_ENV") != sys.prefix:
        return
    del environ["VIRTUAL_ENV"]
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder and os.path.exists(os.path.join(folder, "python")):
            prefix = os.path.dirname(folder)
            if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
                environ["VIRTUAL_ENV"] = prefix
            return
