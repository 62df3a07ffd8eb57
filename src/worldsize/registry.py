"""Modules that the core knows by name alone: those of wings (`worldsize.wings`), any of which may be missing.

The tables of names lie where they are used: verbs in `cli/main.py`, computes in `jobspec/config/config.py`,
launchers in `plan/launchers.py`, distributions in `jobspec/distribution.py`, what a framework needs on a node in
`agent/launchers/base.py`, commands that are launchers in `service/submission/make_plan.py`, what ranks load in
`service/submission/rank_packages.py`, batch scripts in `jobspec/batch_script.py` and
`service/submission/batch_script.py`, commands on nodes in `compute/capabilities.py` and
`agent/supervision/supervisor.py`, what few users of Slurm need in `compute/slurm/compute.py`, what a job or another
wing needs in `service/providers.py`, and of its keys those that a wing reads in `jobspec/keys/job.py`; what nodes do
for a search in `plan/array.py`.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

MISSING = "is not part of this installation of worldsize"


def load_module(name: str, what: str) -> ModuleType:
    """The module of this name below `worldsize`, or of a whole name that begins with `worldsize_`, imported.
    ConfigError, which names `what`, where this installation is without it; whatever the module itself raises."""
    module = find_module(name)
    if module is None:
        raise missing_error(what)
    return module


def missing_error(what: str) -> ConfigError:
    """For what this installation is without."""
    return ConfigError(f"{what} {MISSING}", None, "pip install worldsize")


def find_module(name: str) -> ModuleType | None:
    """As `load_module`; None where this installation is without it."""
    full = name if name.startswith("worldsize_") else "worldsize." + name
    try:
        return __import__(full, fromlist=("__name__",))
    except ModuleNotFoundError as error:
        if error.name is None or not (full + ".").startswith(error.name + "."):
            raise
        return None
